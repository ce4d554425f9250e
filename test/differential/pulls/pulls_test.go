package pulls

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/podstream/podstream/test/pullchecks/wire"
)

var (
	count = flag.Int("pulls", 2000, "number of sequences")
	first = flag.Int("pulls.first", 0, "number of the first sequence")
	seed  = flag.Uint64("pulls.seed", 0, "seed; 0: a new one")
)

const steps = 40

var policies = []string{"NeverVerifyPreloadedImages", "NeverVerifyPreloadedImages", "AlwaysVerify", "NeverVerify", "NeverVerifyAllowlistedImages"}

// TestPulls: podexecd's decisions and records are the kubelet's, except as the rules say.
func TestPulls(t *testing.T) {
	klog.SetLogger(klog.Logger{})
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", *seed)
	p, err := startPodexecd(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rules, checks, operations := map[string]int{}, 0, 0
	for n := *first; n < *first+*count; n++ {
		w, err := sequence(t, p, n, t.TempDir)
		checks += w.checks
		operations += len(w.log)
		for rule, times := range w.rules {
			rules[rule] += times
		}
		if err != nil {
			t.Fatalf("sequence %d of seed %d: %v\n%s", n, *seed, err, strings.Join(w.log, "\n"))
		}
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d sequences, %d operations, %d decisions; differences by rule: %v", *count, operations, checks, rules)
	for _, rule := range frequent {
		if rules[rule] == 0 && *count >= 1000 {
			t.Errorf("the rule %q was never needed", rule)
		}
	}
}

// TestInterrupted: a node's agent is killed when a private image has just been pulled and isn't listed yet. Then another
// pod's pull of the name fails. The kubelet allows all pods the image from then on; podexecd doesn't.
func TestInterrupted(t *testing.T) {
	p, err := startPodexecd(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := spellings[4]
	for i, s := range []side{&kubelet{}, p} {
		must, dir := false, t.TempDir()
		for _, r := range []wire.Request{
			{Op: wire.Start, Policy: policies[0]}, {Op: wire.Intend, Image: name.given}, {Op: wire.Start, Policy: policies[0]},
			{Op: wire.Intend, Image: name.given}, {Op: wire.Failed, Image: name.given},
			{Op: wire.Check, Image: name.given, ID: ids[0], Names: []string{name.full}},
		} {
			if r.Op == wire.Start {
				r.Dir = dir
			}
			if must, err = s.do(r); err != nil {
				t.Fatal(err)
			}
		}
		if want := i == 1; must != want {
			t.Errorf("side %d: a pull is required: %t; want %t", i, must, want)
		}
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
}

// sequence compares both sides in one sequence.
func sequence(t *testing.T, ours side, n int, dir func() string) (*world, error) {
	t.Helper()
	w := &world{
		sides: []side{&kubelet{}, ours}, random: rand.New(rand.NewPCG(*seed, uint64(n))), names: map[string]string{},
		orphans: map[spelling]bool{}, converted: map[string]bool{}, forgotten: map[spelling]bool{},
		kubeletOnly: map[string]bool{}, lingering: map[spelling]bool{}, pulled: map[string]bool{}, rules: map[string]int{},
	}
	w.policy = one(w, policies)
	root := dir()
	defer os.RemoveAll(root)
	for i := range w.sides {
		w.dirs = append(w.dirs, filepath.Join(root, fmt.Sprint(i)))
	}
	if w.pick(4) == 0 {
		if err := w.fill(); err != nil {
			return w, err
		}
	}
	if err := w.start(); err != nil {
		return w, err
	}
	for range steps {
		if err := w.step(); err != nil {
			return w, err
		}
	}
	return w, nil
}

// fill gives both sides a kubelet's record with about as many pull secrets as stop the kubelet from learning more.
func (w *world) fill() error {
	id, s := ids[0], spellings[0]
	w.names[s.full] = id
	w.pulled[id+" "+s.repository] = true
	var secrets []string
	for i := range 97 + w.pick(5) {
		secrets = append(secrets, fmt.Sprintf(`{"uid":"many","namespace":"x","name":"n%03d","credentialHash":"m%d"}`, i, i))
	}
	text := fmt.Sprintf(`{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2024-10-21T12:26:40Z","imageRef":%q,`+
		`"credentialMapping":{%q:{"kubernetesSecrets":[%s]}}}`, id, s.repository, strings.Join(secrets, ","))
	for _, dir := range w.dirs {
		dir = filepath.Join(dir, "image_manager", "pulled")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fileOf(id)), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// TestPlanted: the comparison finds a side that gives access where the kubelet doesn't, and one that forgets a pull.
func TestPlanted(t *testing.T) {
	klog.SetLogger(klog.Logger{})
	if *seed == 0 {
		*seed = 1
	}
	for name, broken := range map[string]func(r *wire.Request){
		"secrets are compared without their hash": func(r *wire.Request) {
			for _, l := range r.Logins {
				if l.Secret != nil {
					l.Secret.Hash = "h1"
				}
			}
		},
		"service accounts are compared without their UID": func(r *wire.Request) {
			for _, l := range r.Logins {
				if l.Account != nil {
					l.Account.UID = "sa0"
				}
			}
		},
		"failed pulls count as public": func(r *wire.Request) {
			if r.Op == wire.Failed {
				r.Op, r.ID = wire.Pulled, ids[0]
				r.Logins = []wire.Login{{}}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := false
			for n := 0; n < 50 && !found; n++ {
				_, err := sequence(t, &altered{change: broken}, n, t.TempDir)
				found = err != nil
			}
			if !found {
				t.Error("no sequence of 50 shows it")
			}
		})
	}
}

// altered is the kubelet's pull manager with a fault.
type altered struct {
	kubelet
	change func(*wire.Request)
}

func (a *altered) do(r wire.Request) (bool, error) {
	logins := make([]wire.Login, len(r.Logins))
	for i, l := range r.Logins {
		if l.Secret != nil {
			secret := *l.Secret
			logins[i].Secret = &secret
		}
		if l.Account != nil {
			account := *l.Account
			logins[i].Account = &account
		}
	}
	r.Logins = logins
	a.change(&r)
	return a.kubelet.do(r)
}
