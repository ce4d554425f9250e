package cridiff

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

var (
	uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	// burstableScore matches an OOM score adjustment of a Burstable pod; that of a Guaranteed one is -997.
	burstableScore = regexp.MustCompile(`^[1-9][0-9]{0,2}$`)
	// stickyDirectory matches the mode and owner of one.
	stickyDirectory = regexp.MustCompile(`^dg?t[rwx-]{9} \d+:\d+$`)
	nonRoot         = regexp.MustCompile(`runAsNonRoot|non-root`)
)

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}

func decimal(s *int64) string {
	if s == nil {
		return ""
	}
	return strconv.FormatInt(*s, 10)
}

// sibling returns Podstream's value of another field of the same message.
func (d *Difference) sibling(name string) string {
	return value(d.of.podstream[d.Step], d.Path[:strings.LastIndexByte(d.Path, '.')+1]+name)
}

// sandboxOf reports whether the field is of the sandbox's configuration, not the container's.
func (d *Difference) sandboxOf() bool {
	return d.Step == "RunPodSandbox" || strings.HasPrefix(d.Path, "sandboxConfig.")
}

// container returns the container of the step.
func (d *Difference) container() *v1.Container {
	name := containerOf(d.Step)
	for _, list := range [][]v1.Container{d.Pod.Spec.InitContainers, d.Pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

var hostID = regexp.MustCompile(`\.hostId$`)

// hasRange reports whether an agent gives the pod's users the 65,536 IDs of the node from first on, wherever it says so.
func (d *Difference) hasRange(steps Steps, first string) bool {
	n, err := strconv.ParseUint(first, 10, 32)
	if err != nil || n == 0 || n%65536 != 0 {
		return false
	}
	for _, fields := range steps {
		for path, v := range fields {
			if hostID.MatchString(path) && (v != first || fields[strings.TrimSuffix(path, "hostId")+"length"] != "65536") {
				return false
			}
		}
	}
	return true
}

var hexName = regexp.MustCompile(`^[0-9a-f]{8}$`)

func terminationLog(d *Difference) bool {
	fields := d.of.podstream[d.Step]
	name := containerOf(d.Step)
	dir := fmt.Sprintf("ROOT/pods/%s/containers/%s/", d.UID, name)
	kubelet, ofKubelet := strings.CutPrefix(d.Kubelet, dir)
	attempt, _ := strconv.ParseUint(strings.Replace(value(fields, "config.metadata.attempt"), absent, "0", 1), 10, 32)
	return ofKubelet && hexName.MatchString(kubelet) && d.Podstream == fmt.Sprintf("%s%08x", dir, attempt) &&
		d.sibling("containerPath") == value(fields, "config.annotations.io.kubernetes.container.terminationMessagePath")
}

// longestEnd bounds the seconds by which main containers end later with one agent than with the other.
var longestEnd int64 = 3

// restOfGrace reports whether both give a sidecar the pod's grace period, or a little less.
func restOfGrace(d *Difference) bool {
	c := d.container()
	if c == nil || ptr.Deref(c.RestartPolicy, "") != v1.ContainerRestartPolicyAlways {
		return false
	}
	grace := ptr.Deref(d.Pod.Spec.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)
	for _, text := range []string{d.Kubelet, d.Podstream} {
		if n, err := strconv.ParseInt(text, 10, 64); err != nil || n > grace || n < max(grace-longestEnd, 2) {
			return false
		}
	}
	return true
}

// sameElements reports whether both lists have the same elements.
func sameElements(d *Difference) bool {
	list := d.Path[:strings.LastIndexByte(d.Path, '[')+1]
	elements := func(fields Fields) []string {
		var all []string
		for path, v := range fields {
			if strings.HasPrefix(path, list) {
				all = append(all, v)
			}
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(elements(d.of.kubelet[d.Step]), elements(d.of.podstream[d.Step]))
}

// sameVariables reports whether both have the same variables, those of the pod, and podexecd in its order.
func sameVariables(d *Difference) bool { return d.variablesIn() }

// variablesIn reports whether both have the same variables, and podexecd those of the pod in its order, followed by more.
func (d *Difference) variablesIn(more ...string) bool {
	variables := func(fields Fields) (all, names []string) {
		for i := 0; ; i++ {
			at := fmt.Sprintf("config.envs[%d].", i)
			key, ok := fields[at+"key"]
			if !ok {
				slices.Sort(all)
				return all, names
			}
			all, names = append(all, key+"="+value(fields, at+"value")), append(names, key)
		}
	}
	ofKubelet, _ := variables(d.of.kubelet[d.Step])
	ofPodstream, names := variables(d.of.podstream[d.Step])
	c := d.container()
	if c == nil || !slices.Equal(ofKubelet, ofPodstream) {
		return false
	}
	var want []string
	for _, v := range c.Env {
		if !slices.Contains(want, v.Name) {
			want = append(want, v.Name)
		}
	}
	return slices.Equal(names, append(want, more...))
}

// deprecatedAppArmor reports whether the deprecated field says what the current one does.
func deprecatedAppArmor(d *Difference) bool {
	ref := d.sibling("apparmor.localhostRef")
	profile := map[string]string{"Unconfined": "unconfined", "Localhost": "localhost/" + ref, absent: "runtime/default"}
	kind := d.sibling("apparmor.profileType")
	if kind == absent && d.sibling("apparmor") != "{}" {
		return false
	}
	return d.Podstream == absent && d.Kubelet == profile[kind]
}
