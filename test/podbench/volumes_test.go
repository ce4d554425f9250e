package podbench

import (
	"fmt"
	"slices"
	"testing"
)

// volume is a volume of a pod, and its container's mount of it.
type volume struct {
	name string
	// source is the volume's source in the manifest. object is the manifest of the object that it uses.
	source, object string
	// subPath is the mount's subPath; empty for the whole volume.
	subPath string
	// readOnly is set if containers can't write to such a volume.
	readOnly bool
}

func (v volume) mountPath() string { return "/volumes/" + v.name }

// key is the only key of each object.
const key = "key"

// furnished returns a staying pod with 20 volumes of all kinds. Its objects are in the same file.
func furnished(name string) pod {
	p := staying(name)
	config := func(i int) string { return fmt.Sprintf("%s-config%d", name, i) }
	object := func(kind, name, field string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {name: %s, namespace: bench}\n%s: {%s: a value}\n---\n", kind, name, field, key)
	}
	const labels = `{path: labels, fieldRef: {fieldPath: metadata.labels}}`
	p.volumes = slices.Concat(
		several(5, "config", func(i int, v *volume) {
			v.source, v.object, v.readOnly = "configMap: {name: "+config(i)+"}", object("ConfigMap", config(i), "data"), true
		}),
		several(5, "secret", func(i int, v *volume) {
			secret := fmt.Sprintf("%s-secret%d", name, i)
			v.source, v.object, v.readOnly = "secret: {secretName: "+secret+"}", object("Secret", secret, "stringData"), true
		}),
		several(3, "projected", func(i int, v *volume) {
			v.source = fmt.Sprintf("projected: {sources: [{configMap: {name: %s}}, {downwardAPI: {items: [%s]}}]}", config(i), labels)
			v.readOnly = true
		}),
		several(3, "downward", func(_ int, v *volume) { v.source, v.readOnly = "downwardAPI: {items: ["+labels+"]}", true }),
		several(2, "empty", func(_ int, v *volume) { v.source = "emptyDir: {}" }),
		several(1, "memory", func(_ int, v *volume) { v.source = "emptyDir: {medium: Memory}" }),
		several(1, "host", func(_ int, v *volume) { v.source = "hostPath: {path: /tmp, type: Directory}" }),
	)
	for i := range p.volumes {
		switch v := &p.volumes[i]; v.name {
		case "config0", "secret0":
			v.subPath = key
		case "empty0":
			v.subPath = "below"
		}
	}
	return p
}

// several returns n volumes of one kind.
func several(n int, kind string, fill func(i int, v *volume)) []volume {
	volumes := make([]volume, n)
	for i := range volumes {
		volumes[i].name = fmt.Sprint(kind, i)
		fill(i, &volumes[i])
	}
	return volumes
}

// BenchmarkVolumes starts pods with 20 volumes in turn with pods without volumes, through the daemons and with
// bare CRI calls, for which the volumes are existing directories. Each kind of pod has a separate podexecd, so
// that each one's usage can be measured. The runtime's version makes no difference here. It is one measurement,
// for any b.N.
func BenchmarkVolumes(b *testing.B) {
	r := runtimes[0].runtime
	floor := newFloor(b, r)
	without := &side{name: "daemons, no volumes", product: newProduct(b, r)}
	with := &side{name: "daemons, 20 volumes", product: newProduct(b, r)}
	bare := &side{name: "CRI calls, no volumes", floor: floor}
	bound := &side{name: "CRI calls, 20 mounts", floor: floor}
	rounds(b, "volumes", func(name string) []start {
		return []start{{without, staying(name)}, {with, furnished(name)}, {bare, staying(name + "-bare")}, {bound, furnished(name + "-bound")}}
	})
	compare(b, []*side{bare, bound, without, with}, []ratio{
		{"what 20 mounts add to CRI calls", bound, bare}, {"what 20 volumes add to daemons", with, without},
		{"what daemons add, 20 volumes", with, bound},
	})
}

// BenchmarkCgroups starts pods with cgroups in turn with pods without. It is one measurement, for any b.N.
func BenchmarkCgroups(b *testing.B) {
	r := runtimes[0].runtime
	without := &side{name: "daemons, --cgroups-per-qos=false", product: newProduct(b, r, "--cgroups-per-qos=false")}
	with := &side{name: "daemons", product: newProduct(b, r)}
	bare := &side{name: "CRI calls", floor: newFloor(b, r)}
	rounds(b, "cgroups", func(name string) []start {
		return []start{{without, staying(name)}, {with, staying(name)}, {bare, staying(name)}}
	})
	compare(b, []*side{bare, without, with}, []ratio{{"what cgroups add", with, without}, {"what daemons add", with, bare}})
}
