"""Which consumers are there, and how far are they? Members, offsets and locks of groups."""
