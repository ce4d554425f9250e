package stats

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/internal/execsvc/pod/observed"
)

// readSystem reads the cgroups that the summary names.
func (s *Stats) readSystem(r *reading, brief bool) {
	for _, g := range []group{{name: "kubelet", path: s.own}, {name: "pods", path: s.cfg.PodsCgroup}, {name: "runtime", path: s.cfg.RuntimeCgroup}} {
		if g.path == "" {
			continue
		}
		if g.used = s.readGroup("system/"+g.name, g.path, r.at, brief); g.Usage != nil {
			r.system = append(r.system, g)
		}
	}
}

// readGroup reads a cgroup, if it exists.
func (s *Stats) readGroup(key, path string, now time.Time, brief bool) used {
	usage, err := s.kernel.Group(path, now, brief)
	if err != nil {
		// It is gone, or of a kind that can't be read, which the runtime may report.
		return used{}
	}
	return used{usage, s.rates.of(key, now, usage.CPU.Total)}
}

// readPods selects the running pods of the runtime's.
func (s *Stats) readPods(r *reading, listed []*observed.Pod, brief bool) {
	paths := s.podCgroups(r, brief)
	for _, o := range listed {
		sandbox := o.ReadySandbox()
		if sandbox == nil {
			continue
		}
		p := pod{uid: o.UID, namespace: o.Namespace, name: o.Name, created: sandbox.Created, path: paths[o.UID]}
		// Without a name, as a kubelet on containerd has it: sums over containers leave it out by container!="".
		p.sandbox = container{id: sandbox.ID, created: sandbox.Created}
		for _, c := range o.Containers {
			if c.State == observed.Running && !slices.ContainsFunc(p.containers, func(has container) bool { return has.name == c.Name }) {
				p.containers = append(p.containers, container{id: c.ID, name: c.Name, image: c.Image, created: c.Created})
			}
		}
		slices.SortFunc(p.containers, func(a, b container) int { return cmp.Compare(a.name, b.name) })
		if shown, ok := s.cfg.Board.Get(o.UID); ok {
			p.hostNetwork = shown.Object != nil && shown.Object.Spec.HostNetwork
			p.nameImages(shown.Status)
		}
		s.readPod(&p, r.at, brief)
		r.pods = append(r.pods, p)
	}
	slices.SortFunc(r.pods, func(a, b pod) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name), b.created.Compare(a.created))
	})
}

// nameImages sets the names of images from the pod's status: runtimes list images by their digest.
func (p *pod) nameImages(status *v1.PodStatus) {
	if status == nil {
		return
	}
	for _, of := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses) {
		for i := range p.containers {
			if c := &p.containers[i]; c.name == of.Name && of.Image != "" {
				c.image = of.Image
			}
		}
	}
}

// readPod reads the cgroups of the pod and its containers, and its network.
func (s *Stats) readPod(p *pod, now time.Time, brief bool) {
	if p.path == "" {
		return
	}
	if p.used = s.readGroup("pod/"+string(p.uid), p.path, now, brief); p.Usage == nil {
		return
	}
	children, err := s.kernel.Children(p.path)
	if err != nil {
		return
	}
	containers := make([]*container, 0, len(p.containers)+1)
	for i := range p.containers {
		containers = append(containers, &p.containers[i])
	}
	if !brief {
		containers = append(containers, &p.sandbox)
	}
	pid, processes := 0, uint64(0)
	for _, c := range containers {
		i := slices.IndexFunc(children, func(name string) bool { return isContainer(name, c.id) })
		if i < 0 {
			continue
		}
		c.path = path.Join(p.path, children[i])
		if c.used = s.readGroup(c.id, c.path, now, brief); c.Usage != nil && !brief {
			// The sandbox's PID comes last, and is used: its process lives as long as the network.
			pid = cmp.Or(c.PID, pid)
			if c.Processes != nil {
				processes += *c.Processes
			}
		}
	}
	if brief {
		return
	}
	// A pod's own cgroup has no processes.
	p.Processes = &processes
	if pid != 0 && !p.hostNetwork {
		// Pods in the node's network have no network stats.
		p.network, _ = s.kernel.Network(pid)
	}
}

// isContainer reports whether a cgroup is the container's: <id>, cri-containerd-<id>.scope, crio-<id>.scope; CRI-O's
// monitor isn't.
func isContainer(name, id string) bool {
	name = strings.TrimSuffix(name, ".scope")
	return id != "" && (name == id || strings.HasSuffix(name, "-"+id) && !strings.Contains(name, "conmon"))
}

// podCgroups returns the paths of the existing cgroups of pods, of either driver. It also reads the cgroups that
// contain them.
func (s *Stats) podCgroups(r *reading, brief bool) map[types.UID]string {
	out := map[types.UID]string{}
	if s.cfg.PodsCgroup == "" {
		return out
	}
	tiers := []string{s.cfg.PodsCgroup}
	for i := 0; i < len(tiers); i++ {
		names, err := s.kernel.Children(tiers[i])
		if err != nil {
			continue
		}
		for _, name := range names {
			at := path.Join(tiers[i], name)
			if uid := podOf(name); uid != "" {
				out[uid] = at
			} else if i == 0 && isTier(name) {
				tiers = append(tiers, at)
			}
		}
	}
	if !brief {
		for _, at := range tiers {
			if g := (group{used: s.readGroup("tier/"+at, at, r.at, brief), path: at}); g.Usage != nil {
				r.tiers = append(r.tiers, g)
			}
		}
	}
	return out
}

// podOf returns the pod whose cgroup has that name: pod<uid>, or kubepods-burstable-pod<uid>.slice with underscores
// for dashes. Empty: none.
func podOf(name string) types.UID {
	if uid, ok := strings.CutPrefix(name, "pod"); ok {
		return types.UID(uid)
	}
	slice, ok := strings.CutSuffix(name, ".slice")
	i := strings.LastIndex(slice, "-pod")
	if !ok || i < 0 {
		return ""
	}
	return types.UID(strings.ReplaceAll(slice[i+len("-pod"):], "_", "-"))
}

func isTier(name string) bool {
	name = strings.TrimSuffix(name, ".slice")
	return strings.HasSuffix(name, "burstable") || strings.HasSuffix(name, "besteffort")
}
