package apiserver

import (
	"k8s.io/apimachinery/pkg/types"
)

// follow makes the lineage that of this cluster. The caller holds the lock, here and below.
func (i *identity) follow(uid types.UID) {
	if i.cluster == uid && i.line.cluster == uid && i.before == nil {
		return
	}
	// Pods that were read before may be of another cluster.
	others := i.line.cluster != "" && i.line.cluster != uid || i.unknown != ""
	i.line, i.before = i.line.follow(uid, i.before), nil
	if others {
		i.reread()
	}
}

// reread ends the open watches, and has all pods and objects read again, at no version.
func (i *identity) reread() {
	for _, end := range i.watches {
		end()
	}
	i.refusals++
}

func (i *identity) lineageNow() lineage {
	if i.cluster == "" {
		return lineage{}
	}
	return i.line
}

// lineage returns the lineage of an answer that the last check was for; without a cluster, it isn't known.
func (i *identity) lineage() lineage {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.lineageNow()
}

// wentBack is part of history: etcd was restored from a snapshot.
func (i *identity) wentBack(of lineage, listed, had string) lineage {
	i.mu.Lock()
	defer i.mu.Unlock()
	if now := i.lineageNow(); !of.is(now) {
		return now // Another list has shown it.
	}
	i.line.epoch++
	i.log.Warn("the history of the cluster has gone back, as if etcd was restored from a snapshot: its pods are read again",
		"cluster", i.line.cluster, "epoch", i.line.epoch, "resourceVersion", listed, "before", had)
	i.store()
	i.reread()
	return i.line
}

// outdated is part of history.
func (i *identity) outdated() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reread()
}
