package relay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// maxHops is how many podconfigds a path may have. A chain is a few hops long, and a tree not much larger.
	maxHops = 64
	// maxWord is the most bytes that a name in a path, or of a source, may have.
	maxWord = 253
	// maxSources is how many sources an upstream may have.
	maxSources = 256
	// idLength is how much of a podconfigd's id stands in a relay-path.
	idLength = 8
	// unknownNode stands in a relay-path for an upstream of a version that doesn't tell its node.
	unknownNode = "unknown"
)

// errLoop: the upstream relays this podconfigd.
var errLoop = errors.New("loop")

// hops is a path that the upstream told: its own hop first.
type hops []*podconfigv1.RelayHop

// check refuses a path that can't be one, and one that has the own id.
func (h hops) check(ownID string) error {
	if len(h) > maxHops {
		return fmt.Errorf("%w: a path of %d podconfigds; at most %d are followed", errNonsense, len(h), maxHops)
	}
	for _, hop := range h {
		if !isWord(hop.GetId()) || !isWord(hop.GetNode()) {
			return fmt.Errorf("%w: a path with the hop %.64q, %.64q", errNonsense, hop.GetId(), hop.GetNode())
		}
	}
	own := slices.IndexFunc(h, func(hop *podconfigv1.RelayHop) bool { return hop.GetId() == ownID })
	if own < 0 {
		return nil
	}
	var nodes []string
	for _, hop := range h[:own+1] {
		nodes = append(nodes, hop.GetNode())
	}
	return fmt.Errorf("%w: its pods come through %s, which has the id of this podconfigd; not relayed",
		errLoop, strings.Join(nodes, ", "))
}

// pathOf is the path that a revision tells, if it does: then it tells all sources, too.
func pathOf(r *stream.Revision) (path hops, told bool) {
	if r.Synced != nil {
		return r.Synced.GetPath(), true
	}
	return r.Heartbeat.GetPath(), r.Heartbeat != nil
}

// node is the upstream's.
func (h hops) node() string {
	if len(h) == 0 {
		return unknownNode
	}
	return h[0].GetNode()
}

// extended is the relay-path of a pod that comes from the upstream's source and bears the path so far.
func (h hops) extended(source, sofar string) string {
	here := h.node() + "/" + source
	if len(h) > 0 {
		here = h.node() + "(" + short(h[0].GetId()) + ")/" + source
	}
	if sofar == "" {
		return here
	}
	return here + "," + sofar
}

// short is what stands for an id in a relay-path.
func short(id string) string { return id[:min(len(id), idLength)] }

// passes tells whether a relay-path leads through the podconfigd with that id.
func passes(path, id string) bool {
	for hop := range strings.SplitSeq(path, ",") {
		at, _, _ := strings.Cut(strings.TrimSpace(hop), "/")
		if begin := strings.LastIndexByte(at, '('); begin >= 0 && at[begin:] == "("+short(id)+")" {
			return true
		}
	}
	return false
}

// checkSources refuses names that can't be, and more of them than are followed: be it that ops tell of them one after the other.
func (m *mirror) checkSources(r *stream.Revision, told bool) error {
	if told {
		return checkSources(r.Sources())
	}
	known := m.held.Ready()
	for _, u := range r.Updates {
		if name := u.GetSource(); name != "" && !isWord(name) {
			return fmt.Errorf("%w: an operation of the source %.64q", errNonsense, name)
		}
		known[u.GetSource()] = true
	}
	// Between two lists of sources some may have gone and others come.
	if len(known) > 2*maxSources {
		return fmt.Errorf("%w: operations of %d sources; at most %d are followed", errNonsense, len(known), maxSources)
	}
	return nil
}

// checkSources refuses a list of sources that can't be one.
func checkSources(sources []*podconfigv1.SourceReadiness) error {
	if len(sources) > maxSources {
		return fmt.Errorf("%w: %d sources; at most %d are followed", errNonsense, len(sources), maxSources)
	}
	seen := make(map[string]bool, len(sources))
	for _, s := range sources {
		name := s.GetName()
		if !isWord(name) || seen[name] {
			return fmt.Errorf("%w: a list of sources with %.64q, which is no name or stands there twice", errNonsense, name)
		}
		seen[name] = true
	}
	return nil
}

// isWord tells whether a text can stand in a relay-path and in the name of an origin, where commas, slashes and spaces mean
// something.
func isWord(s string) bool {
	apart := func(c rune) bool { return c <= ' ' || c == ',' || c == '/' || c == 0x7f }
	return s != "" && len(s) <= maxWord && !strings.ContainsFunc(s, apart)
}

// originName is the name of a pod's origin. Only the UID may have spaces.
func originName(source, namespace, name, uid string) string {
	return source + " " + namespace + "/" + name + " " + uid
}

// sourceOf is the upstream's source in the name of an origin. Empty: it isn't one that originName made of that pod.
func sourceOf(origin string, pod *v1.Pod) string {
	source, _, _ := strings.Cut(origin, " ")
	if origin != originName(source, pod.Namespace, pod.Name, string(pod.UID)) {
		return ""
	}
	return source
}
