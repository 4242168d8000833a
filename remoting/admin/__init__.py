"""What do tools want to know of a broker? Topics, groups and figures, as mqadmin asks for them.

An answer is made of what the files say now. What only a broker that writes can know, such as rates,
is 0.
"""
