package access

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// PodSecurity is a level of the Pod Security Standards.
type PodSecurity string

// The levels, from the strictest one.
const (
	Restricted PodSecurity = "restricted"
	Baseline   PodSecurity = "baseline"
	Privileged PodSecurity = "privileged"
)

// allNamespaces means every namespace; it must be alone in a list.
const allNamespaces = "*"

// The limits of a deployer whose entry gives none.
const (
	defaultMaxPods  = 20
	defaultMaxBytes = 1 << 20
	// maxMaxBytes is more than the source of written pods takes in all.
	maxMaxBytes = 1 << 30
)

// appliedSource is the source of written pods, and the scope of the role deployer.
const appliedSource = "applied"

// Writes is what a caller may write to podconfigd's source "applied". It is immutable.
type Writes struct {
	// Everything is set for root and the daemon's own user: they may write any pod, also in place of another caller's. The
	// other fields don't count then.
	Everything bool
	// Namespaces are the only ones. Empty: all, which an entry says by "*".
	Namespaces []string
	// PodSecurity is the level that each pod keeps to.
	PodSecurity PodSecurity
	// MaxPods and MaxBytes bound the caller's pods, and the bytes of all of its manifests.
	MaxPods, MaxBytes int
}

// HasNamespace reports whether the caller may write to the namespace.
func (w *Writes) HasNamespace(namespace string) bool {
	return w.Everything || len(w.Namespaces) == 0 || slices.Contains(w.Namespaces, namespace)
}

func (w *Writes) equal(o *Writes) bool {
	if w == nil || o == nil {
		return w == o
	}
	return w.Everything == o.Everything && w.PodSecurity == o.PodSecurity && w.MaxPods == o.MaxPods && w.MaxBytes == o.MaxBytes &&
		slices.Equal(w.Namespaces, o.Namespaces)
}

// ownerWrites are those of root and the daemon's own user.
var ownerWrites = &Writes{Everything: true, PodSecurity: Privileged}

// deployer is the part of an entry that is for the role deployer only.
type deployer struct {
	Namespaces  []string `yaml:"namespaces"`
	PodSecurity *string  `yaml:"podSecurity"`
	MaxPods     *int     `yaml:"maxPods"`
	// MaxBytes is a number of bytes, or a quantity such as "1Mi".
	MaxBytes *string `yaml:"maxBytes"`
}

// given reports whether any field is set.
func (d *deployer) given() bool {
	return d.Namespaces != nil || d.PodSecurity != nil || d.MaxPods != nil || d.MaxBytes != nil
}

// writes returns what the entry allows.
func (d *deployer) writes() (*Writes, error) {
	w := &Writes{Namespaces: d.Namespaces, PodSecurity: Baseline, MaxPods: defaultMaxPods, MaxBytes: defaultMaxBytes}
	if len(d.Namespaces) == 0 {
		return nil, errors.New(`namespaces: there is none; name those to which the deployer may write, or give ["*"] for all`)
	}
	if slices.Equal(d.Namespaces, []string{allNamespaces}) {
		w.Namespaces = nil
	}
	for i, name := range w.Namespaces {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return nil, fmt.Errorf("namespaces[%d]: %q; want the name of a namespace, or \"*\" alone for all", i, name)
		}
	}
	if d.PodSecurity != nil {
		w.PodSecurity = PodSecurity(*d.PodSecurity)
	}
	if !slices.Contains([]PodSecurity{Restricted, Baseline, Privileged}, w.PodSecurity) {
		return nil, fmt.Errorf("podSecurity: %q; want %s, %s or %s", w.PodSecurity, Restricted, Baseline, Privileged)
	}
	if d.MaxPods != nil {
		w.MaxPods = *d.MaxPods
	}
	if w.MaxPods < 1 {
		return nil, fmt.Errorf("maxPods: %d; want 1 or more", w.MaxPods)
	}
	if d.MaxBytes != nil {
		q, err := resource.ParseQuantity(*d.MaxBytes)
		if err != nil || q.Value() < 1 || q.Value() > maxMaxBytes {
			return nil, fmt.Errorf(`maxBytes: %q; want a number of bytes, such as "1Mi", of 1Gi at most`, *d.MaxBytes)
		}
		w.MaxBytes = int(q.Value())
	}
	return w, nil
}
