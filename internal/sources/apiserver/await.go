package apiserver

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client/position"
)

// confirmation is a consistent list of pods that the store is compared with.
type confirmation struct {
	number uint64
	of     lineage
	// whole: it has the pods of all nodes of the Source. foreign: it may have pods of other nodes.
	whole, foreign bool
	// versions are those of the lists, by node; by the empty name if one list has all nodes.
	versions map[string]string
	// listed are the pods, by namespace/name. Once it is awaited: only those that the store doesn't have as listed.
	listed map[string]listedPod
	// done receives nil once the store has all of it, or why it can't be waited for any more.
	done chan error
}

// listedPod is a pod in a list of version at. Without a UID, it isn't in the list.
type listedPod struct {
	uid         types.UID
	version, at string
}

// least returns the lowest version of the lists.
func (c *confirmation) least() string {
	least := ""
	for _, version := range c.versions {
		if least == "" || older(version, least) {
			least = version
		}
	}
	return least
}

// covers returns the version of the list that a node's pods are in; empty: they are in none.
func (c *confirmation) covers(node string) string {
	if version := c.versions[node]; version != "" {
		return version
	}
	return c.versions[""]
}

// await compares the store with the lists now, and with each event, until it has all of them.
func (p *pods) await(c *confirmation) <-chan error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, pod := range p.known {
		at := c.covers(pod.Spec.NodeName)
		if _, ok := c.listed[key]; at != "" && !ok {
			c.listed[key] = listedPod{at: at}
		}
	}
	for key := range c.listed {
		p.compare(c, key)
	}
	p.awaited = c
	p.settle()
	return c.done
}

// forget ends the wait.
func (p *pods) forget(c *confirmation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.awaited == c {
		p.awaited = nil
	}
}

// compare drops a listed pod if the store has it as listed, or has a later change of it. The caller holds the lock, here
// and below.
func (p *pods) compare(c *confirmation, key string) {
	listed, ok := c.listed[key]
	if ok && p.passed(c, p.known[key], listed) {
		delete(c.listed, key)
	}
}

func (p *pods) passed(c *confirmation, has *v1.Pod, listed listedPod) bool {
	switch {
	case has != nil && has.UID == listed.uid && has.ResourceVersion == listed.version:
		return true
	case has != nil:
		return older(listed.at, has.ResourceVersion)
	case listed.uid == "":
		return true
	case c.foreign:
		// It may be on another node: then the store drops it.
		return !older(p.at.applied, listed.version)
	default:
		return older(listed.at, p.at.applied) // It was deleted after the list.
	}
}

// passing compares what is awaited with an event of one pod; empty: all pods.
func (p *pods) passing(key string) {
	c := p.awaited
	if c == nil {
		return
	}
	if key != "" && !older(c.least(), p.at.applied) && !c.foreign {
		p.compare(c, key)
	} else {
		for key := range c.listed {
			p.compare(c, key)
		}
	}
	p.settle()
}

// settle completes the confirmation if the store has all of it, and is followed.
func (p *pods) settle() {
	c := p.awaited
	switch {
	case c == nil:
		return
	case !p.at.of.is(c.of):
		c.done <- errLineage
	case len(c.listed) > 0 || !p.complete || p.away || !p.at.known:
		return
	default:
		p.at.confirmed, p.at.confirmedAt = c.number, c.least()
		if c.whole {
			p.at.current = position.Later(p.at.current, c.least())
		}
		p.next.good = true
		p.wake()
		c.done <- nil
	}
	p.awaited = nil
}
