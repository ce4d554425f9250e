package apiserver

import "fmt"

// snapshot is a complete reading of the pods.
type snapshot struct {
	of lineage
	// before is how far the pods followed the cluster when it began.
	before point
	// consistent: it has all that was stored when it began.
	consistent bool
}

// history is notified of complete readings that are older than what was read before.
type history interface {
	// wentBack follows a consistent list at version listed that came after one of the same lineage at version had, which
	// is later. It returns the lineage of the list.
	wentBack(of lineage, listed, had string) lineage
	// outdated follows a list that is older than it had to be. The next one is consistent.
	outdated()
}

// judge returns an error if a complete reading at this version can't be used. It may begin another lineage.
func (p *pods) judge(version string) error {
	switch r := &p.snapshot; {
	case p.history == nil || !r.before.of.is(r.of):
	case r.consistent && older(version, r.before.current):
		r.of = p.history.wentBack(r.of, version, r.before.current)
	case older(version, r.before.applied):
		p.history.outdated()
		return fmt.Errorf("%w: it is of version %s, after %s", errOutdated, version, r.before.applied)
	}
	return nil
}

// begin records what the next Replace is of.
func (p *pods) begin(s snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snapshot = s
}

// where returns how far the pods follow the cluster.
func (p *pods) where() point {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}
