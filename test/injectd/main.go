// Command injectd is podconfigd for tests: it has additional sources, whose sets it receives over a socket.
// Package inject has the protocol, and a client for it. Without --pod-manifest-path it reads no manifests.
package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/mergesvc/merge"
	"github.com/podstream/podstream/internal/podconfigd"
	"github.com/podstream/podstream/test/injectd/inject"
)

func main() { podconfigd.Program(&injected{}).Main() }

// injected are the injected sources, as podconfigd expects them.
type injected struct {
	cfg inject.Config
}

// AddFlags adds the flags, and removes the default of --pod-manifest-path: a test's pods are the ones that it
// injects.
func (i *injected) AddFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&i.cfg.Sources, "inject-source", nil, "name of a source to inject, for instance api, http or file:NAME; repeatable")
	fs.StringVar(&i.cfg.Listen, "inject-listen", "", "address to take the sets of the injected sources at, unix:///path")
	if manifests := fs.Lookup("pod-manifest-path"); manifests != nil {
		if value, ok := manifests.Value.(pflag.SliceValue); ok {
			_ = value.Replace(nil)
			manifests.DefValue = manifests.Value.String()
		}
	}
}

// Sources returns the injected sources.
func (i *injected) Sources() ([]merge.Source, error) {
	if len(i.cfg.Sources) == 0 || i.cfg.Listen == "" {
		return nil, errors.New("--inject-source and --inject-listen must be given")
	}
	if slices.Contains(i.cfg.Sources, "") {
		return nil, errors.New("--inject-source: the name is empty")
	}
	return i.named(i.cfg.Sources), nil
}

// named returns the injected sources of these names.
func (i *injected) named(names []string) []merge.Source {
	var out []merge.Source
	for _, name := range names {
		out = append(out, merge.Source{Name: name, Location: i.cfg.Listen})
	}
	return out
}

// Run serves requests until ctx ends.
func (i *injected) Run(ctx context.Context, hub podconfigd.Hub) error {
	configure := func(names []string) { hub.Configure(i.named(names)) }
	return inject.New(i.cfg).Run(ctx, inject.Hub{Apply: hub.Apply, Configure: configure, Published: hub.Published})
}
