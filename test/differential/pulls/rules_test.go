package pulls

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podstream/podstream/test/pullchecks/wire"
)

// The intended differences.
const (
	// loadedName: the kubelet requires credentials for a loaded image after a pull of the same content by another name, and
	// after a pull of its own name was interrupted and left nothing. podexecd doesn't, by the image's own name.
	loadedName = "a loaded image by its own name"
	// otherSpelling: a pull under way, or interrupted, concerns an image by each spelling of its name. For the kubelet it
	// concerns the spelling of the pod that pulls.
	otherSpelling = "another spelling of the name"
	// interrupted: an interrupted pull concerns the image of its name until a listing shows whether it left one. For the
	// kubelet, a later pull of the name that fails ends that.
	interrupted = "a failed pull after an interrupted one"
	// moved: a pull under way, or interrupted, concerns images that have a digest of its repository and no tag, unless they
	// were listed before it: another pull may have moved the tag. For the kubelet it concerns its own name.
	moved = "an image whose tag may have moved"
)

// frequent are the rules that random sequences need. TestInterrupted, and TestMovedTag of package pullrecord, show the others.
var frequent = []string{loadedName, otherSpelling}

// check compares the decisions for a pod that uses an image.
func (w *world) check(s spelling) error {
	id := w.names[s.full]
	if id == "" {
		return nil
	}
	if w.policy == "NeverVerifyAllowlistedImages" && s.given != s.full {
		return nil // The kubelet 1.35 compares the spelling with the allowlist: kubernetes/kubernetes#137629.
	}
	var logins []wire.Login
	for range w.pick(3) {
		logins = append(logins, w.login())
	}
	got, err := w.do(wire.Request{Op: wire.Check, Image: s.given, ID: id, Names: w.namesOf(id), Logins: logins})
	if err != nil {
		return err
	}
	w.checks++
	kubelet, podexecd := got[0], got[1]
	rule := ""
	switch {
	case kubelet == podexecd:
		return nil
	case kubelet && w.loaded(s, id):
		rule = loadedName
	case podexecd && w.lingers(id):
		rule = interrupted
	case podexecd && w.spelledOtherwise(s, id):
		rule = otherSpelling
	case podexecd && w.mayHaveMoved(s, id):
		rule = moved
	default:
		return fmt.Errorf("a pull is required by the kubelet: %t, by podexecd: %t", kubelet, podexecd)
	}
	w.rules[rule]++
	return nil
}

// loaded reports whether the image has its name only from a load.
func (w *world) loaded(s spelling, id string) bool {
	same := func(o spelling) bool { return o.repository == s.repository && w.names[o.full] == id }
	return w.policy == "NeverVerifyPreloadedImages" && !w.pulled[id+" "+s.repository] &&
		!slices.ContainsFunc(w.underWay, same) && !slices.ContainsFunc(slices.Collect(maps.Keys(w.orphans)), same)
}

// lingers reports whether an interrupted pull concerns the image for podexecd only.
func (w *world) lingers(id string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(w.lingering)), func(o spelling) bool { return w.names[o.full] == id })
}

// spelledOtherwise reports whether a pull under another spelling concerns the image.
func (w *world) spelledOtherwise(s spelling, id string) bool {
	other := func(o spelling) bool { return o.given != s.given && w.names[o.full] == id }
	return w.converted[id+" "+s.repository] ||
		slices.ContainsFunc(slices.Concat(w.underWay, slices.Collect(maps.Keys(w.orphans))), other)
}

// mayHaveMoved reports whether a pull concerns the image without its name.
func (w *world) mayHaveMoved(s spelling, id string) bool {
	concerns := func(o spelling) bool { return o.repository == s.repository && w.untagged(id, o.repository) }
	return slices.ContainsFunc(slices.Concat(w.underWay, slices.Collect(maps.Keys(w.orphans)), slices.Collect(maps.Keys(w.lingering))), concerns)
}

// untagged reports whether the image has a digest of the repository, and no tag.
func (w *world) untagged(id, repository string) bool {
	names := w.namesOf(id)
	return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, repository+"@") }) &&
		!slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, repository+":") })
}

// convertUntagged records that podexecd alone treats these images as pulled, if they may be from interrupted pulls.
func (w *world) convertUntagged() {
	for _, s := range slices.Concat(slices.Collect(maps.Keys(w.orphans)), slices.Collect(maps.Keys(w.lingering))) {
		for _, id := range ids {
			if w.untagged(id, s.repository) {
				w.pulled[id+" "+s.repository], w.converted[id+" "+s.repository] = true, true
			}
		}
	}
}

// compareRecords compares the records by their effect. podexecd may have one more without credentials, of an image
// that another spelling concerns; and the kubelet, of an image that was loaded after a pull of its name was interrupted.
func (w *world) compareRecords() error {
	of, err := records(w.dirs[0])
	if err != nil {
		return err
	}
	ours, err := records(w.dirs[1])
	if err != nil {
		return err
	}
	for id, has := range ours {
		if _, both := of[id]; !both && len(has) == 0 {
			delete(ours, id)
		}
	}
	for id, has := range of {
		if _, both := ours[id]; !both && len(has) == 0 && w.kubeletOnly[id] {
			delete(of, id)
		}
	}
	if !maps.EqualFunc(of, ours, maps.Equal) {
		return fmt.Errorf("the kubelet's records are %v, podexecd's %v", of, ours)
	}
	return nil
}
