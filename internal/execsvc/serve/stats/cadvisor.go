package stats

import (
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/podstream/podstream/internal/execsvc/serve/stats/kernel"
)

// row is an object of /metrics/cadvisor: the machine, a cgroup that contains pods, a pod, a sandbox or a container.
type row struct {
	*kernel.Usage
	labels
	// created is zero if it is unknown.
	created time.Time
	network []kernel.Interface
	// tasks is nil if its processes weren't counted.
	tasks *kernel.Tasks
	// volumes are the file systems that it uses.
	volumes []*volume
	// limited is set for objects with limits of their own: all but the machine.
	limited bool
}

// cadvisorMetrics returns the metrics of /metrics/cadvisor. tasks are the processes of containers, by cgroup.
func cadvisorMetrics(r *reading, tasks map[string]*kernel.Tasks, failed bool) []*dto.MetricFamily {
	var all []*family
	if r != nil {
		all = machineFamilies(r)
		rows := rowsOf(r, tasks)
		for _, group := range [][]series{containerSeries, diskSeries, taskSeries} {
			for i := range group {
				all = append(all, group[i].of(rows, r))
			}
		}
	}
	scrape := newFamily("container_scrape_error", "1 if not everything could be read, else 0.", gauge)
	if failed {
		scrape.add(1, time.Time{}, nil)
	} else {
		scrape.add(0, time.Time{}, nil)
	}
	return gathered(append(all, scrape))
}

func machineFamilies(r *reading) []*family {
	if r.machine == nil {
		return nil
	}
	t, id := r.machine.topology, r.machine.identity
	which := newLabels("boot_id", id.Boot, "machine_id", id.Machine, "system_uuid", id.System)
	one := func(name, help string, v float64) *family {
		f := newFamily(name, help, gauge)
		f.add(v, time.Time{}, which)
		return f
	}
	scrape := newFamily("machine_scrape_error", "1 if the machine can't be read, else 0.", gauge)
	scrape.add(0, time.Time{}, nil)
	all := []*family{
		scrape,
		one("machine_memory_bytes", "Memory of the machine.", float64(r.machine.Total)),
		one("machine_swap_bytes", "Swap of the machine.", float64(r.machine.SwapTotal)),
		versionInfo(id),
	}
	for _, has := range []struct {
		name, help string
		n          int
	}{
		{"machine_cpu_cores", "Logical processors of the machine.", t.CPUs},
		{"machine_cpu_physical_cores", "Cores of the machine.", t.Cores},
		{"machine_cpu_sockets", "Chips with processors of the machine.", t.Sockets},
	} {
		if has.n > 0 {
			all = append(all, one(has.name, has.help, float64(has.n)))
		}
	}
	return all
}

// versionInfo has the labels of cAdvisor's series. Those of cAdvisor and of Docker are empty: neither runs.
func versionInfo(id kernel.Identity) *family {
	f := newFamily("cadvisor_version_info", "Always 1, with the machine's kernel and operating system.", gauge)
	f.add(1, time.Time{}, newLabels("cadvisorRevision", "", "cadvisorVersion", "", "dockerVersion", "", "kernelVersion", id.Kernel, "osVersion", id.OS))
	return f
}

// rowsOf returns the rows of a reading, with cAdvisor's labels: id is the cgroup, or the runtime's ID where the
// cgroup isn't visible.
func rowsOf(r *reading, tasks map[string]*kernel.Tasks) []row {
	none := func(id string) labels {
		return newLabels("container", "", "id", id, "image", "", "name", "", "namespace", "", "pod", "")
	}
	var rows []row
	if m := r.machine; m != nil {
		root := row{Usage: &m.Usage, labels: none("/"), created: m.Boot, network: m.Network}
		seen := map[string]bool{}
		for _, v := range []*volume{r.node, r.images, r.layers} {
			if v != nil && !seen[v.device] {
				seen[v.device] = true
				whole := *v
				// This is the use by all processes.
				whole.bytesUsed = new(less(v.bytes, v.free))
				root.volumes = append(root.volumes, &whole)
			}
		}
		rows = append(rows, root)
	}
	seen := map[string]bool{}
	for _, groups := range [][]group{r.tiers, r.system} {
		for _, g := range groups {
			if !seen[g.path] {
				seen[g.path] = true
				rows = append(rows, row{Usage: g.Usage, labels: none(g.path), limited: true, tasks: tasks[g.path]})
			}
		}
	}
	for i := range r.pods {
		p := &r.pods[i]
		of := newLabels("namespace", p.namespace, "pod", p.name)
		add := func(u *kernel.Usage, c container, network []kernel.Interface) {
			id := c.path
			if id == "" {
				id = "/" + string(p.uid) + "/" + c.id
			}
			x := row{Usage: u, created: c.created, network: network, limited: true, tasks: tasks[c.path]}
			x.labels = of.with("container", c.name, "id", id, "image", c.image, "name", c.id)
			if c.layer != nil {
				x.volumes = []*volume{c.layer}
			}
			rows = append(rows, x)
		}
		add(p.Usage, container{path: p.path, created: p.created}, nil)
		add(p.sandbox.Usage, p.sandbox, p.network)
		for _, c := range p.containers {
			if c.Usage != nil || c.layer != nil {
				add(c.Usage, c, nil)
			}
		}
	}
	return rows
}

// series is one metric, and its values of a row.
type series struct {
	name, help string
	kind       kind
	// untimed is set if values have no timestamp.
	untimed bool
	// values calls add for each value, with the names and values of additional labels.
	values func(x *row, add func(v float64, more ...string))
	// devices is set if the first of these labels is a device, by its number.
	devices bool
}

// of returns the family of all rows.
func (s *series) of(rows []row, r *reading) *family {
	f := newFamily(s.name, s.help, s.kind)
	for i := range rows {
		x := &rows[i]
		at := r.at
		if x.Usage != nil {
			at = x.At
		}
		if s.untimed {
			at = time.Time{}
		}
		s.values(x, func(v float64, more ...string) {
			if s.devices && len(more) > 1 {
				more[1] = device(r, more[1])
			}
			f.add(v, at, x.with(more...))
		})
	}
	return f
}

// device returns the path of a disk, or its number if there is none, as for file systems without a disk.
func device(r *reading, number string) string {
	if path := r.devices[number]; path != "" {
		return path
	}
	return number
}
