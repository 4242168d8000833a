"""Who may ask for what? A broker's accounts and rules, TLS, and stores that nobody guards."""
