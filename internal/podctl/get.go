package podctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"
)

// getOptions are the flags of get.
type getOptions struct {
	pods       podsOptions
	fields     fieldSelector
	showLabels bool
}

// fieldSelector is the value of --field-selector. Nil: everything.
type fieldSelector struct{ fields.Selector }

// String implements pflag.Value.
func (s *fieldSelector) String() string {
	if s.Selector == nil {
		return ""
	}
	return s.Selector.String()
}

// Type implements pflag.Value.
func (s *fieldSelector) Type() string { return "selector" }

// Set implements pflag.Value.
func (s *fieldSelector) Set(text string) error {
	selector, err := fields.ParseSelector(text)
	if err == nil {
		s.Selector = selector
	}
	return err
}

// check refuses a field that the items don't have: nothing would match it.
func (s *fieldSelector) check(known fields.Set) error {
	if s.Selector == nil {
		return nil
	}
	for _, r := range s.Requirements() {
		if !known.Has(r.Field) {
			return fmt.Errorf("--field-selector: there is no field %s", r.Field)
		}
	}
	return nil
}

// getResource is a type of `podctl get`.
type getResource struct {
	// names are what the type is called on the command line.
	names []string
	// run prints the items with these names, or all.
	run func(ctx context.Context, o getOptions, names []string) error
}

// getResources are the types of `podctl get`.
func (t *tool) getResources() []getResource {
	unnamed := func(run func(context.Context) error) func(context.Context, getOptions, []string) error {
		return func(ctx context.Context, o getOptions, names []string) error {
			if len(names) > 0 || o.fields.Selector != nil || o.pods.watch || o.pods.selector != "" || o.pods.namespaces != nil || o.showLabels || o.pods.mirrors {
				return errors.New("get lists all of these: there are names, namespaces, selectors and a watch for pods and events only")
			}
			return run(ctx)
		}
	}
	return []getResource{
		{[]string{"pods", "pod", "po"}, t.getPods},
		{[]string{"events", "event", "ev"}, t.getEvents},
		{[]string{"sources", "source"}, unnamed(t.runSources)},
		{[]string{"consumers", "consumer"}, unnamed(t.runConsumers)},
	}
}

func (t *tool) getCommand() *cobra.Command {
	var o getOptions
	var resource getResource
	var names []string
	cmd := &cobra.Command{
		Use:   "get TYPE [NAME...]",
		Short: "Show pods, events, sources or consumers, as kubectl get does",
		Long: `Get shows pods, events, sources or consumers with the columns and the documents of kubectl get: -o json and the expressions of
-o jsonpath and custom-columns see v1.Pod and v1.Event. A pod is the one that podconfigd wants, with the status that
podexecd observes. Unlike kubectl, get shows all namespaces by default.

The other commands show more: podctl pods, describe, events, sources and consumers.`,
		Example: `  podctl get pods -o wide
  podctl get pod/web -o yaml
  podctl get pods -l app=web -o jsonpath='{.items[*].status.podIP}'
  podctl get pods --sort-by=.status.startTime -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName
  podctl get events --field-selector type=Warning`,
		Args: func(_ *cobra.Command, args []string) error {
			var err error
			if resource, names, err = t.getArguments(args); err != nil {
				return err
			}
			return t.checkSorted(o.pods.watch)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return resource.run(cmd.Context(), o, names) },
	}
	flags := cmd.Flags()
	o.pods.addFlags(flags)
	addMirrorsFlag(flags, &o.pods.mirrors)
	t.addListFlags(flags)
	flags.Var(&o.fields, "field-selector", "only the items with these `fields`, such as status.phase=Running, or type=Warning for events")
	flags.BoolVar(&o.showLabels, "show-labels", false, "for pods: show the labels in a column")
	flags.BoolVarP(&o.pods.watch, "watch", "w", false, "for pods and events: continue with every change")
	return cmd
}

// getArguments returns the type and the names of TYPE [NAME...] or TYPE/NAME....
func (t *tool) getArguments(args []string) (getResource, []string, error) {
	if len(args) == 0 {
		return getResource{}, nil, errors.New("want a type: pods, events, sources or consumers")
	}
	kind, _, slashed := strings.Cut(args[0], "/")
	resource, err := t.getResource(kind)
	if err != nil || !slashed {
		return resource, args[1:], err
	}
	var names []string
	for _, arg := range args {
		other, name, ok := strings.Cut(arg, "/")
		if !ok || !slices.Contains(resource.names, other) || name == "" {
			return getResource{}, nil, fmt.Errorf("want TYPE/NAME of one type; there is %q", arg)
		}
		names = append(names, name)
	}
	return resource, names, nil
}

func (t *tool) getResource(kind string) (getResource, error) {
	var known []string
	for _, r := range t.getResources() {
		if slices.Contains(r.names, strings.ToLower(kind)) {
			return r, nil
		}
		known = append(known, r.names[0])
	}
	if err := elsewhere(kind); err != nil {
		return getResource{}, err
	}
	return getResource{}, fmt.Errorf("there is no type %q: want %s", kind, strings.Join(known, ", "))
}

// elsewhere returns an error that names the command which shows objects of a type, if that isn't get or describe. Nil: none does.
func elsewhere(kind string) error {
	switch strings.ToLower(kind) {
	case "cm", "configmap", "configmaps", "secret", "secrets":
		return errors.New("podctl objects shows the ConfigMaps and Secrets that the pods refer to")
	case "pvc", "persistentvolumeclaim", "persistentvolumeclaims", "pv", "persistentvolume", "persistentvolumes":
		return errors.New("podctl volumes shows the volumes of static pods' claims, and podctl objects the documents")
	case "node", "nodes", "no":
		return errors.New("podctl doctor shows the state of this node, and podctl consumers the nodes of a gateway")
	}
	return nil
}

// getEvents prints events, as v1.Events in documents.
func (t *tool) getEvents(ctx context.Context, o getOptions, names []string) error {
	if err := o.fields.check(eventFieldNames); err != nil {
		return err
	}
	if o.pods.mirrors {
		return errors.New("--mirrors is for pods")
	}
	return t.runEvents(ctx, eventsOptions{pods: o.pods, names: names, follow: o.pods.watch, fields: o.fields.Selector, objects: true})
}
