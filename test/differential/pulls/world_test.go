package pulls

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podstream/podstream/test/pullchecks/wire"
)

// spelling is a name of an image in a pod's spec, with its full name and its repository.
type spelling struct{ given, full, repository string }

var digest = "@sha256:" + strings.Repeat("ab", 32)

var spellings = []spelling{
	{"docker.io/testing/a:1", "docker.io/testing/a:1", "docker.io/testing/a"},
	{"testing/a:1", "docker.io/testing/a:1", "docker.io/testing/a"},
	{"testing/a", "docker.io/testing/a:latest", "docker.io/testing/a"},
	{"docker.io/testing/a" + digest, "docker.io/testing/a" + digest, "docker.io/testing/a"},
	{"registry.example/b:1", "registry.example/b:1", "registry.example/b"},
	{"registry.example/b:2", "registry.example/b:2", "registry.example/b"},
	{"registry.example/c/d:1", "registry.example/c/d:1", "registry.example/c/d"},
}

var ids = []string{"sha256:1", "sha256:2", "sha256:3"}

// world is a node with both sides, and what happened on it.
type world struct {
	sides    []side
	dirs     []string
	policy   string
	random   *rand.Rand
	names    map[string]string // IDs by the runtime's full names
	underWay []spelling
	// orphans are the intents of pulls that a restart has interrupted; converted has those of an image that the runtime
	// had, if the kubelet doesn't find the image by their spelling.
	orphans   map[spelling]bool
	converted map[string]bool
	// lingering are the orphans that the kubelet has forgotten, after another pull of the name, and podexecd hasn't.
	lingering map[spelling]bool
	// forgotten are the orphans that podexecd has forgotten and the kubelet hasn't; kubeletOnly are the IDs of images that
	// the kubelet has found by one of these later, and of damaged records.
	forgotten   map[spelling]bool
	kubeletOnly map[string]bool
	// pulled has "ID REPOSITORY" of each pull that the record may have.
	pulled map[string]bool
	log    []string
	rules  map[string]int
	checks int
}

func (w *world) pick(n int) int { return w.random.IntN(n) }

func one[T any](w *world, from []T) T { return from[w.pick(len(from))] }

func (w *world) object(kind string) *wire.Object {
	return &wire.Object{UID: fmt.Sprint(kind, w.pick(3)), Namespace: one(w, []string{"x", "y"}), Name: one(w, []string{"pull", "other"})}
}

func (w *world) login() wire.Login {
	switch w.pick(8) {
	case 0:
		return wire.Login{}
	case 1, 2:
		return wire.Login{Account: w.object("sa")}
	}
	s := w.object("secret")
	// An empty hash is one that couldn't be computed.
	s.Hash = one(w, []string{"h1", "h2", "h3", ""})
	return wire.Login{Secret: s}
}

func (w *world) images() []wire.Image {
	var list []wire.Image
	for _, id := range slices.Compact(slices.Sorted(maps.Values(w.names))) {
		list = append(list, wire.Image{ID: id, Names: w.namesOf(id)})
	}
	return list
}

func (w *world) namesOf(id string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(w.names)) {
		if w.names[name] == id {
			names = append(names, name)
		}
	}
	return names
}

// do has both sides perform an operation. For a Start, each gets its own directory.
func (w *world) do(r wire.Request) (mustPull [2]bool, err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return mustPull, err
	}
	w.log = append(w.log, string(text))
	for i, s := range w.sides {
		r.Dir = ""
		if r.Op == wire.Start {
			r.Dir = w.dirs[i]
		}
		if mustPull[i], err = s.do(r); err != nil {
			return mustPull, fmt.Errorf("side %d: %w", i, err)
		}
	}
	return mustPull, nil
}

func (w *world) start() error {
	_, err := w.do(wire.Request{Op: wire.Start, Policy: w.policy, Allowlist: w.allowlist(), Images: w.images()})
	return err
}

func (w *world) allowlist() []string {
	if w.policy != "NeverVerifyAllowlistedImages" {
		return nil
	}
	return []string{"registry.example/c/*"}
}

// step is a random operation.
func (w *world) step() (err error) {
	switch w.pick(20) {
	case 0, 1:
		s := one(w, spellings)
		w.underWay = append(w.underWay, s)
		_, err = w.do(wire.Request{Op: wire.Intend, Image: s.given})
	case 2, 3:
		err = w.end()
	case 4:
		w.load(one(w, spellings))
	case 5:
		id := one(w, ids)
		maps.DeleteFunc(w.names, func(_, of string) bool { return of == id })
	case 6:
		err = w.collect()
	case 7:
		err = w.restart()
	case 8:
		err = w.damage(one(w, ids))
	default:
		err = w.check(one(w, spellings))
	}
	if err != nil {
		return err
	}
	return w.compareRecords()
}

// end ends a pull.
func (w *world) end() error {
	if len(w.underWay) == 0 {
		return nil
	}
	at := w.pick(len(w.underWay))
	s := w.underWay[at]
	w.underWay = slices.Delete(w.underWay, at, at+1)
	// The kubelet removes an ended pull's intent with that of an interrupted one, unless another one is under way.
	if !slices.ContainsFunc(w.underWay, func(o spelling) bool { return o.given == s.given }) {
		if w.orphans[s] {
			w.lingering[s] = true
		}
		delete(w.orphans, s)
		delete(w.forgotten, s)
	}
	if w.pick(3) == 0 {
		_, err := w.do(wire.Request{Op: wire.Failed, Image: s.given})
		return err
	}
	id := one(w, ids)
	w.names[s.full] = id
	w.pulled[id+" "+s.repository] = true
	_, err := w.do(wire.Request{Op: wire.Pulled, Image: s.given, ID: id, Logins: []wire.Login{w.login()}})
	return err
}

// load is a load of an image by others, under a name that isn't being pulled.
func (w *world) load(s spelling) {
	for _, other := range slices.Concat(w.underWay, slices.Collect(maps.Keys(w.orphans)), slices.Collect(maps.Keys(w.lingering))) {
		if other.repository == s.repository {
			return
		}
	}
	w.names[s.full] = one(w, ids)
}

// collect is image garbage collection. podexecd removes a record at the second listing that lacks its image.
func (w *world) collect() error {
	for id := range w.ofGoneImages() {
		maps.DeleteFunc(w.pulled, func(pulled string, _ bool) bool { return strings.HasPrefix(pulled, id+" ") })
		maps.DeleteFunc(w.converted, func(pulled string, _ bool) bool { return strings.HasPrefix(pulled, id+" ") })
	}
	for range 2 {
		if _, err := w.do(wire.Request{Op: wire.List, Images: w.images()}); err != nil {
			return err
		}
	}
	// Then podexecd has no interrupted pull any more.
	w.convertUntagged()
	maps.Copy(w.forgotten, w.orphans)
	for s := range w.lingering {
		w.convert(s)
	}
	clear(w.orphans)
	clear(w.lingering)
	return nil
}

func (w *world) ofGoneImages() map[string]bool {
	gone := map[string]bool{}
	for _, id := range ids {
		gone[id] = len(w.namesOf(id)) == 0
	}
	maps.DeleteFunc(gone, func(_ string, is bool) bool { return !is })
	return gone
}

// restart interrupts all pulls.
func (w *world) restart() error {
	for _, s := range w.underWay {
		w.orphans[s] = true
	}
	w.underWay = nil
	w.convertUntagged()
	for s := range w.orphans {
		id := w.names[s.full]
		if id == "" {
			continue
		}
		w.pulled[id+" "+s.repository] = true
		if s.given != s.full {
			w.converted[id+" "+s.repository] = true
		}
		delete(w.orphans, s)
	}
	for s := range w.lingering {
		w.convert(s)
	}
	for s := range w.forgotten {
		if id := w.names[s.full]; id != "" && s.given == s.full {
			w.kubeletOnly[id] = true
			delete(w.forgotten, s)
		}
	}
	return w.start()
}

// convert records that podexecd alone treats the image of that name as pulled.
func (w *world) convert(s spelling) {
	if id := w.names[s.full]; id != "" {
		w.pulled[id+" "+s.repository] = true
		w.converted[id+" "+s.repository] = true
		delete(w.lingering, s)
	}
}

// damage damages the records of an image that both have. A policy that exempts images does so only when the record has
// been replaced, and an interrupted pull may replace it on one side only: the rules say when.
func (w *world) damage(id string) error {
	if w.pick(3) > 0 || w.policy != "NeverVerifyPreloadedImages" && w.policy != "AlwaysVerify" {
		return nil
	}
	name := filepath.Join("image_manager", "pulled", fileOf(id))
	for _, dir := range w.dirs {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return nil //nolint:nilerr // One of them has none.
		}
	}
	w.log = append(w.log, "damage "+id)
	w.kubeletOnly[id] = true // podexecd may replace it by an empty record, and remove that.
	var errs []error
	for _, dir := range w.dirs {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(`{"kind":`), 0o600))
	}
	return errors.Join(errs...)
}

// fileOf returns the name of an image's record.
func fileOf(id string) string { return fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(id))) }

// damagedID returns the ID of the image whose record has this name.
func damagedID(name string) string {
	return ids[slices.IndexFunc(ids, func(id string) bool { return fileOf(id) == name })]
}
