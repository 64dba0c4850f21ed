"""Virtual time: arrivals go in, the scheduling core decides, figures come out.  Pure."""
