"""Where does an output resume? At its record of progress, or before the place of a cut."""
