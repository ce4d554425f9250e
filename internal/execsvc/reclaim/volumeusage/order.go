package volumeusage

import (
	"cmp"
	"slices"

	"github.com/podstream/podstream/internal/execsvc/setup/storage"
)

// inOrder returns the volumes that have a name in their pods, those first that have waited longest. mu is held.
func (m *Meter) inOrder(mounted []storage.Mounted) []storage.Mounted {
	mounted = slices.DeleteFunc(slices.Clone(mounted), func(at storage.Mounted) bool { return len(at.Volumes) == 0 })
	slices.SortFunc(mounted, func(a, b storage.Mounted) int {
		x, y := m.volumes[place{a.Key, a.Target}], m.volumes[place{b.Key, b.Target}]
		return cmp.Or(x.due.Compare(y.due), cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Handle, b.Handle), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name))
	})
	return mounted
}
