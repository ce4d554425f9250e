package sidebyside

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

const (
	podmanPods = "podman has no namespaces, and each of its pods has an infra container more"
	withoutIDs = "podman prints IDs"
	// withoutClaims is why commands of volumes aren't run.
	withoutClaims = "podctl's volumes are those of static pods' claims, and this node has none; TestVolumesOfClaims runs the command"
)

// podmanRows are the commands of podman. Its pods are its own: they have the names, the images and the commands of the
// node's.
var podmanRows = map[string]row{
	"podman pod ps":                      {compare: same(columns("NAME", "STATUS")), differs: podmanPods},
	"podman ps":                          {compare: contains(last, podContainers), differs: podmanPods},
	"podman ps -a":                       {compare: contains(last, podContainers), differs: podmanPods},
	"podman ps -q":                       {compare: contains(podmanNamed, podctlNamed), differs: podmanPods},
	"podman ps --filter pod=web":         {compare: contains(last, podContainers), differs: podmanPods},
	"podman logs CONTAINER":              {compare: sameText},
	"podman logs -f --tail=20 CONTAINER": {how: manner{until: "hello"}, compare: sameText},
	"podman logs --since=1h --timestamps CONTAINER": {compare: same(find(`(?m)^\S+T\S+ (.*)$`)), differs: "the containers started at other times"},
	"podman pod logs web":                           {compare: same(find(`(?m)^\S+ (.*)$`)), differs: "podman's prefix is the container's ID, podctl's its name"},
	"podman events --filter container=CONTAINER": {there: []string{"--stream=false"}, compare: each(find(`container (create|start)`), lower(find(`\b(Create|Start)e?d\b`))),
		differs: "podman has an event for each step of a container, podctl those of the kubelet"},
	"podman exec -it CONTAINER sh":               {how: manner{stdin: "echo typed\nexit 3\n"}, compare: sameText},
	"podman exec CONTAINER date":                 {compare: sameText},
	"podman exec -i CONTAINER psql":              {how: manner{stdin: "select 1"}, compare: sameText},
	"podman attach CONTAINER":                    {before: noted, how: manner{stdin: "typed\n", until: "typed"}, after: either(restarted, goneOn), compare: has("typed")},
	"podman cp CONTAINER:/etc/app.conf app.conf": {compare: sameFile("app.conf")},
	"podman cp ./data CONTAINER:/srv":            {after: either(podmanCopied, copied), compare: sameCode},
	"podman stats": {there: []string{"--no-stream"}, compare: same(find(`(?m)(?:^|\s)(web|db|bad|cart)\b`)),
		differs: "podman has a line for each container, podctl for each pod"},
	"podman pod restart web": {before: noted, after: restarted, compare: sameCode, differs: withoutIDs},
	"podman kube play web.yaml": {before: withoutPodmanWeb, there: []string{"--network=none"}, after: either(podmanWeb, podctlWeb),
		compare: sameCode, differs: withoutIDs},
	"podman kube down web.yaml": {before: (*sides).prepareDown, here: ofHere, after: either(podmanDeleted, deleted), compare: sameCode, differs: withoutIDs},
	"podman images":             {compare: same(prefixes(12, columns("IMAGE ID"))), differs: "podman shows when an image was made, podctl what uses it"},
	"podman pull IMAGE":         {compare: each(find(`(?m)^([0-9a-f]{64})$`), find(`sha256:([0-9a-f]{64})`)), differs: "podman prints an ID without sha256:"},
	"podman image prune -a": {before: (*sides).makePodmanWeb, hereFirst: true, how: manner{stdin: "y\n"}, codes: []int{0, 1},
		compare: each(prefixes(12, find(`([0-9a-f]{64})`)), prefixes(12, columns("IMAGE ID"))), differs: "podctl doesn't ask without a terminal, and shows sizes"},
	"podman volume ls":                      {unrun: withoutClaims},
	"podman volume export data -o data.tar": {unrun: withoutClaims},
	"podman volume import data data.tar":    {unrun: withoutClaims},
	"podman volume rm data":                 {unrun: withoutClaims},
	"podman version":                        {compare: sameCode, differs: "each has the versions of its own programs"},
}

// last returns the last word of each row of a table.
func last(a answer) (out []string) {
	for i, line := range strings.Split(strings.TrimSpace(a.stdout), "\n") {
		if words := strings.Fields(line); i > 0 && len(words) > 0 {
			out = append(out, words[len(words)-1])
		}
	}
	return out
}

// lower returns the values of f in lower case.
func lower(f func(answer) []string) func(answer) []string {
	return func(a answer) []string {
		a.stdout = strings.ToLower(strings.Join(f(a), "\n"))
		return words(a)
	}
}

// podContainers returns the containers of a table of podctl, by the names of podman.
func podContainers(a answer) []string {
	out := columns("POD", "NAME")(a)
	for i, value := range out {
		out[i] = strings.Replace(value, " ", "-", 1)
	}
	return out
}

// podmanNamed returns the names of the containers of which the output has the IDs.
func podmanNamed(a answer) []string {
	if a.stdout == "" {
		return nil
	}
	return strings.Fields(a.user.must(append([]string{"podman", "inspect", "--format={{.Name}}"}, words(a)...)...))
}

// podctlNamed is podmanNamed for podctl.
func podctlNamed(a answer) []string {
	table := answer{stdout: a.user.must("podctl", "ps", "-a")}
	ids, names := columns("CONTAINER ID")(table), podContainers(table)
	var out []string
	for _, id := range words(a) {
		if i := slices.Index(ids, id); i >= 0 {
			out = append(out, names[i])
		} else {
			out = append(out, id)
		}
	}
	return out
}

// either returns what is looked at after podman's command, and after podctl's.
func either(there, here func(*user) string) func(*user) string {
	return func(u *user) string {
		if u.namespace == "there" {
			return there(u)
		}
		return here(u)
	}
}

// podmanCopied is copied for podman.
func podmanCopied(u *user) string {
	content := u.must("podman", "exec", "web-app", "cat", "/srv/data/file")
	return fmt.Sprintf("copied: %t", content == "copied from "+u.namespace+"\n")
}

// startOf returns when the container app of the pod web was started.
var startOf = either(
	func(u *user) string {
		return u.must("podman", "inspect", "--format={{.State.Running}} {{.State.StartedAt}}", "web-app")
	},
	func(u *user) string {
		return u.must("podctl", "get", "pod", "web", "-n", "default", "-o", `jsonpath={.status.containerStatuses[?(@.name=="app")].state.running}`)
	})

// goneOn reports whether the container has not been restarted. It returns what restarted does if podman's was: the row says why.
func goneOn(u *user) string {
	if now, before := startOf(u), u.read("started-at"); now != before {
		return fmt.Sprintf("podctl's client has ended the process: it was started at %s, and then at %s", before, now)
	}
	return "restarted"
}

// noted writes down when the container was started.
func noted(s *sides) {
	for _, u := range []*user{s.there, s.here} {
		u.write("started-at", startOf(u))
	}
}

// restarted waits until the container runs with another start than before.
func restarted(u *user) string {
	before := u.read("started-at")
	rig.Must(u.t, rig.Poll(control.Bound, func() error {
		if now := startOf(u); now == before || !strings.Contains(now, ":") || strings.Contains(now, "false") {
			return errors.New("the container hasn't been restarted: " + now)
		}
		return nil
	}))
	return "restarted"
}

// withoutPodmanWeb removes podman's pod web, because a name can't be used twice.
func withoutPodmanWeb(s *sides) { s.there.must("podman", "pod", "rm", "--force", "web") }

// podmanWeb returns the names of the containers of podman's pod web.
func podmanWeb(u *user) string {
	var names []string
	for name := range strings.FieldsSeq(u.must("podman", "ps", "--all", "--filter=pod=web", "--format={{.Names}}")) {
		if name, ok := strings.CutPrefix(name, "web-"); ok { // the infra container's begins with the pod's ID
			names = append(names, name)
		}
	}
	return strings.Join(slices.Sorted(slices.Values(names)), " ")
}

// podctlWeb is podmanWeb for the pod that podctl applied.
func podctlWeb(u *user) string {
	u.must("podctl", "wait", "--for=condition=Ready", "web", "-n", u.namespace, "--timeout=60s")
	names := columns("NAME")(answer{stdout: u.must("podctl", "ps", "-a", "-n", u.namespace, "web")})
	return strings.Join(slices.Sorted(slices.Values(names)), " ")
}

// prepareDown applies web.yaml on the node, as another row has removed the pod, and stops podman's pod: kube down of podman 4
// fails if it races with the clean-up of a container that it has just stopped.
func (s *sides) prepareDown() {
	s.here.must("podctl", "apply", "-f", "web.yaml", "--wait")
	s.there.must("podman", "pod", "stop", "web")
	rig.Must(s.t, rig.Poll(control.Bound, func() error {
		if states := s.there.must("podman", "ps", "--all", "--filter=pod=web", "--format={{.State}}"); strings.Contains(strings.ToLower(states), "running") {
			return errors.New("the states of the containers are " + states)
		}
		return nil
	}))
}

// podmanDeleted reports whether podman's pod is gone.
func podmanDeleted(u *user) string {
	if a := u.run(manner{}, "podman", "pod", "exists", "web"); a.code != 1 {
		return fmt.Sprintf("podman pod exists: exit code %d", a.code)
	}
	return "deleted"
}
