package cridiff

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/test/inside"
)

// startTime bounds the time until the process of a container that was started has printed its report.
const startTime = 20 * time.Second

// tree is what is found somewhere, as JSON has it; trees have it by step.
type (
	tree  = map[string]any
	trees map[string]tree
)

// noReport is the field of a container without a report.
const noReport = "no report"

// lookInside returns what the processes of the pod's main containers and sidecars find, which must print inside.Report,
// and the pod's cgroups. The agent is the process of that ID.
func (s *Site) lookInside(ctx context.Context, pid int, pod *v1.Pod) (trees, error) {
	reports, steps := map[string]*inside.Report{}, trees{}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if c := &list[i]; slices.Contains(c.Args, "inspect") {
				r, err := s.report(ctx, pod, c.Name)
				if err != nil {
					steps[insideStep+c.Name] = tree{noReport: err.Error()}
					continue
				}
				reports[c.Name] = r
			}
		}
	}
	cgroups, err := s.cgroupsOf(pod)
	if err != nil {
		return nil, err
	}
	steps[cgroupStep] = cgroups
	known, err := namespacesOf(pid)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		if steps[insideStep+name], err = plain(reports[name], name, known); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// report waits for the line that the container's process prints.
func (s *Site) report(ctx context.Context, pod *v1.Pod, container string) (*inside.Report, error) {
	log := s.path("logs", fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID), container, "0.log")
	for began := time.Now(); ; {
		text, err := os.ReadFile(log)
		if line, ok := firstLine(string(text)); ok {
			r := &inside.Report{}
			return r, json.Unmarshal([]byte(line), r)
		}
		if time.Since(began) > s.patience(startTime) {
			return nil, fmt.Errorf("%s has no line of its process: %q, %w", log, text, err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// firstLine returns the first line of a CRI log, which may be in several parts.
func firstLine(log string) (string, bool) {
	var line strings.Builder
	for part := range strings.Lines(log) {
		fields := strings.SplitN(strings.TrimSuffix(part, "\n"), " ", 4)
		if len(fields) < 4 || !strings.HasSuffix(part, "\n") {
			return "", false
		}
		line.WriteString(fields[3])
		if fields[2] == "F" {
			return line.String(), true
		}
	}
	return "", false
}

// namespacesOf returns the names of namespaces that a container may share, by their IDs: the node's.
func namespacesOf(pid int) (map[string]string, error) {
	known := map[string]string{}
	for _, kind := range []string{"cgroup", "ipc", "pid", "user", "uts", "net"} {
		id, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
		if err != nil {
			return nil, err
		}
		known[id] = "the node's"
	}
	return known, nil
}

var (
	longID   = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	snapshot = regexp.MustCompile(`snapshots/\d+`)
	linkAddr = regexp.MustCompile(`^fe80:`)
	peer     = regexp.MustCompile(`^(veth[0-9a-f]{8}|cni0)$`)
	// messageFile matches the file for a termination message. Rule terminationLogName has the reason.
	messageFile = regexp.MustCompile(`(/pods/[a-z-]+/containers/[a-z-]+/)[0-9a-f]{8}"`)
)

// plain returns the report without what is another thing each time: IDs, addresses and names that the agent, the runtime
// and the kernel choose. A namespace has the name of the first container with it, or it is the node's.
func plain(r *inside.Report, container string, namespaces map[string]string) (tree, error) {
	for kind, id := range r.Namespaces {
		if namespaces[id] == "" {
			namespaces[id] = "of " + container
		}
		r.Namespaces[kind] = namespaces[id]
	}
	plainInterfaces(r.Interfaces)
	plainSizes(r.Files)
	plainMounts(r.Mounts)
	names := processNames(r)
	r.Processes = nil
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	for _, p := range []struct {
		pattern *regexp.Regexp
		by      string
	}{{longID, "ID"}, {snapshot, "snapshots/N"}, {version, "..TIME"}, {messageFile, `${1}MESSAGE"`}} {
		text = p.pattern.ReplaceAll(text, []byte(p.by))
	}
	found := tree{}
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, err
	}
	found["processes"] = strings.Join(names, " ")
	return found, nil
}

// plainInterfaces leaves out addresses of links, and the lengths of networks. On the node each pod's network has an end, and
// all may have a bridge: what there is of them depends on when the process looks.
func plainInterfaces(interfaces map[string][]string) {
	maps.DeleteFunc(interfaces, func(name string, _ []string) bool { return peer.MatchString(name) })
	for name, addresses := range interfaces {
		interfaces[name] = slices.DeleteFunc(addresses, func(a string) bool { return linkAddr.MatchString(a) })
		for i, a := range interfaces[name] {
			if prefix, err := netip.ParsePrefix(a); err == nil {
				interfaces[name][i] = prefix.Addr().String()
			}
		}
	}
}

// plainSizes leaves out the sizes of directories, which are the file system's, and of files and links whose whole content is
// there: it may have an address or a time.
func plainSizes(files map[string]inside.File) {
	for path, f := range files {
		if f.Kind == "dir" || f.Size == int64(len(f.Content)) || f.Kind == "link" && f.Size == int64(len(f.Link)) {
			f.Size = 0
			files[path] = f
		}
	}
}

// plainMounts makes the options of a file system one text. Those of an overlay have the numbers of its layers.
func plainMounts(mounts []inside.Mount) {
	for i := range mounts {
		m := &mounts[i]
		m.Super = []string{strings.Join(m.Super, ",")}
		if m.Type == "overlay" {
			m.Super = []string{"an overlay"}
		}
	}
}

// processNames returns which programs the process sees, without the runtime's, which start others: how many processes
// there are depends on when it looks. On the node they are all processes of the machine, which aren't compared.
func processNames(r *inside.Report) []string {
	if r.Namespaces["pid"] == "the node's" {
		return nil
	}
	names := slices.Compact(slices.Sorted(maps.Values(r.Processes)))
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "runc") })
}
