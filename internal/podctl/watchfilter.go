package podctl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// podFilter is the filter of watch's flags.
type podFilter struct {
	message *podconfigv1.PodFilter // nil: all pods
}

func (f *podFilter) addFlags(flags *pflag.FlagSet) {
	part := func(key string) *filterFlag { return &filterFlag{filter: f, key: key} }
	flags.VarP(part("namespace"), "namespace", "n", "only pods of these `namespaces`")
	flags.VarP(part("selector"), "selector", "l", "only pods that match this label `selector`, as kubectl takes it")
	flags.Var(part("source"), "source", "only pods of these `sources`: file, http, oci, api, KIND:NAME")
	flags.Var(part("node"), "node", "only pods of these `nodes`")
	flags.Var(part("name"), "name", "only pods with these full `names`; a static pod's ends in its node's name")
	flags.Var(part(""), "filter", "all of these in one: `KEY=VALUE;...` with the keys namespace, selector, source, node and name")
}

// filterFlag is one of the flags.
type filterFlag struct {
	filter *podFilter
	key    string // empty: --filter
	text   []string
}

// String implements pflag.Value.
func (f *filterFlag) String() string { return strings.Join(f.text, ",") }

// Type implements pflag.Value.
func (f *filterFlag) Type() string { return "text" }

// Set implements pflag.Value. A repeated flag adds values.
func (f *filterFlag) Set(s string) error {
	f.text = append(f.text, s)
	if f.key != "" {
		return f.filter.add(f.key, s)
	}
	for pair := range strings.SplitSeq(s, ";") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("want KEY=VALUE, several of them separated by semicolons; %q has no =", pair)
		}
		if err := f.filter.add(strings.TrimSpace(key), value); err != nil {
			return err
		}
	}
	return nil
}

// add adds the values of one key.
func (f *podFilter) add(key, value string) error {
	if f.message == nil {
		f.message = &podconfigv1.PodFilter{}
	}
	if key == "selector" {
		return f.addSelector(value)
	}
	list, ok := map[string]*[]string{
		"namespace": &f.message.Namespaces, "source": &f.message.Sources, "node": &f.message.Nodes, "name": &f.message.Names,
	}[key]
	if !ok {
		return fmt.Errorf("there is no key %q: want namespace, selector, source, node or name", key)
	}
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item == "" {
			return fmt.Errorf("%s: one of the values is empty", key)
		}
		if key == "namespace" {
			if err := checkNamespace(item); err != nil {
				return err
			}
		}
		*list = append(*list, item)
	}
	return nil
}

// addSelector adds requirements: a pod must match all selectors.
func (f *podFilter) addSelector(selector string) error {
	switch parsed, err := labels.Parse(selector); {
	case err != nil:
		return fmt.Errorf("selector: %w", err)
	case parsed.Empty():
		return errors.New("selector: it is empty")
	}
	if f.message.GetLabelSelector() != "" {
		selector = f.message.GetLabelSelector() + "," + selector
	}
	f.message.LabelSelector = selector
	return nil
}
