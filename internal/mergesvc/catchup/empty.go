package catchup

// Empty tells whether there is nothing left open: then Settle returns the changes as they are, now and later.
func (p *Pending) Empty() bool { return p == nil || len(p.open) == 0 }
