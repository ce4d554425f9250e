package mergesvc

import "github.com/podstream/podstream/internal/manifest"

// Intake gives each set of a source to two hubs: its pods to a Hub, and the objects that its manifests define to the
// peer of that Hub.
type Intake struct {
	// Pods merges and publishes the pods of a set; a *Hub does.
	Pods interface{ Apply(manifest.Set) }
	// Objects publishes ConfigMaps and Secrets; a *objects.Hub does. Add takes the objects of a set and publishes
	// those that are new or changed. If it reports true, Remove publishes which ones the set doesn't have any more.
	Objects interface {
		Add(manifest.Set) (changed bool)
		Remove(source string)
	}
}

// Apply takes in a set, and returns when all that it changes is published. Objects come before the pods that need
// them, and go after those that needed them.
func (i Intake) Apply(set manifest.Set) {
	changed := i.Objects.Add(set)
	i.Pods.Apply(set)
	if changed {
		i.Objects.Remove(set.Source)
	}
}
