"""What does Java make of bytes? Its strings, its properties files, fastjson's JSON."""
