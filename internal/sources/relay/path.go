package relay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

const (
	// maxHops is how many podconfigds a path may have. A chain is a few hops long, and a tree not much larger.
	maxHops = 64
	// maxWord is the most bytes that a name in a path, or of a source, may have.
	maxWord = 253
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

// node is the upstream's.
func (h hops) node() string {
	if len(h) == 0 {
		return unknownNode
	}
	return h[0].GetNode()
}

// haveOther tells whether there is a podconfigd of that node other than the one with that id.
func (h hops) haveOther(node, id string) bool {
	return slices.ContainsFunc(h, func(hop *podconfigv1.RelayHop) bool { return hop.GetNode() == node && hop.GetId() != id })
}

// extended is the relay-path of a pod that comes from the upstream's source and bears the path so far.
func (h hops) extended(source, sofar string) string {
	here := h.node() + "/" + source
	if sofar == "" {
		return here
	}
	return here + "," + sofar
}

// passes tells whether a relay-path leads through the node.
func passes(path, node string) bool {
	for hop := range strings.SplitSeq(path, ",") {
		if at, _, _ := strings.Cut(strings.TrimSpace(hop), "/"); at == node {
			return true
		}
	}
	return false
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
