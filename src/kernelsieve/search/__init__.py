"""The search for support points, which are moved freely, chosen by the best of several rules, or given by the user."""
