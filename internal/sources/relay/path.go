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
	// maxWord bounds a name in a path, or of a source, in bytes.
	maxWord = 253
	// maxSources is how many sources an upstream may have.
	maxSources = 256
	// idLength is how much of a podconfigd's ID is in a relay-path.
	idLength = 8
	// unknownNode is in a relay-path for an upstream of a version that doesn't send its node.
	unknownNode = "unknown"
)

// errLoop: the upstream relays this podconfigd.
var errLoop = errors.New("loop")

// hops is a path that the upstream sent: its own hop first.
type hops []*podconfigv1.RelayHop

// check refuses an invalid path, and one that has the own ID.
func (h hops) check(ownID string) error {
	if len(h) > maxHops {
		return fmt.Errorf("%w: a path of %d podconfigds; at most %d are followed", errNonsense, len(h), maxHops)
	}
	for _, hop := range h {
		if !isWord(hop.GetId()) || !isWord(hop.GetNode()) {
			return fmt.Errorf("%w: a path with the invalid hop %.64q, %.64q", errNonsense, hop.GetId(), hop.GetNode())
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

// pathOf returns the path of a revision, if it has one: then it also has all sources.
func pathOf(r *stream.Revision) (path hops, reported bool) {
	if r.Synced != nil {
		return r.Synced.GetPath(), true
	}
	return r.Heartbeat.GetPath(), r.Heartbeat != nil
}

// node is the upstream's node.
func (h hops) node() string {
	if len(h) == 0 {
		return unknownNode
	}
	return h[0].GetNode()
}

// extended returns the relay-path of a pod that comes from the upstream's source, given its relay-path there.
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

// short returns the part of an ID that is in a relay-path.
func short(id string) string { return id[:min(len(id), idLength)] }

// passes reports whether a relay-path leads through the podconfigd with that ID.
func passes(path, id string) bool {
	for hop := range strings.SplitSeq(path, ",") {
		at, _, _ := strings.Cut(strings.TrimSpace(hop), "/")
		if begin := strings.LastIndexByte(at, '('); begin >= 0 && at[begin:] == "("+short(id)+")" {
			return true
		}
	}
	return false
}

// checkSources refuses invalid names, and too many of them, even if the ops of several revisions add them.
func (m *mirror) checkSources(r *stream.Revision, reported bool) error {
	if reported {
		return checkSources(r.Sources())
	}
	known := m.held.Ready()
	for _, u := range r.Updates {
		if name := u.GetSource(); name != "" && !isWord(name) {
			return fmt.Errorf("%w: an operation of the source %.64q", errNonsense, name)
		}
		known[u.GetSource()] = true
	}
	// Between two lists of sources some may have been removed and others added.
	if len(known) > 2*maxSources {
		return fmt.Errorf("%w: operations of %d sources; at most %d are followed", errNonsense, len(known), maxSources)
	}
	return nil
}

// checkSources refuses an invalid list of sources.
func checkSources(sources []*podconfigv1.SourceReadiness) error {
	if len(sources) > maxSources {
		return fmt.Errorf("%w: %d sources; at most %d are followed", errNonsense, len(sources), maxSources)
	}
	seen := make(map[string]bool, len(sources))
	for _, s := range sources {
		name := s.GetName()
		if !isWord(name) || seen[name] {
			return fmt.Errorf("%w: a list of sources with %.64q, which is invalid or listed twice", errNonsense, name)
		}
		seen[name] = true
	}
	return nil
}

// isWord reports whether a text may be part of a relay-path and of an origin's name, where commas, slashes and spaces
// are separators.
func isWord(s string) bool {
	apart := func(c rune) bool { return c <= ' ' || c == ',' || c == '/' || c == 0x7f }
	return s != "" && len(s) <= maxWord && !strings.ContainsFunc(s, apart)
}

// originName returns the name of a pod's origin. Only the UID may have spaces.
func originName(source, namespace, name, uid string) string {
	return source + " " + namespace + "/" + name + " " + uid
}

// sourceOf returns the upstream's source in the name of an origin. Empty: originName doesn't make that name for the
// pod.
func sourceOf(origin string, pod *v1.Pod) string {
	source, _, _ := strings.Cut(origin, " ")
	if origin != originName(source, pod.Namespace, pod.Name, string(pod.UID)) {
		return ""
	}
	return source
}
