"""How is it shown? Tables and progress bars for people, JSON for programs."""
