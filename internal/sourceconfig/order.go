package sourceconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstream/podstream/internal/kubeletconfig/document"
)

// prioritize puts the sources, which are in the default order, into the configured one. An entry is a source's name,
// or a kind, which stands for all its sources that no entry names. Sources without an entry come last, in the default
// order. A name without a source is only a warning: sources come and go with their files.
func prioritize(sources []Source, order *list) (out []Source, warnings []string, err error) {
	if order == nil {
		return sources, nil, nil
	}
	ofKind, ofName, asked := map[Kind][]Source{}, map[string]Source{}, map[string]bool{}
	for _, s := range sources {
		ofKind[s.Kind], ofName[s.Name] = append(ofKind[s.Kind], s), s
	}
	for _, entry := range order.values {
		asked[entry] = true
	}
	var mistakes, absent []error
	seen, placed := map[string]bool{}, map[string]bool{}
	place := func(s Source) {
		out, placed[s.Name] = append(out, s), true
	}
	for _, entry := range order.values {
		kind, name, _ := strings.Cut(entry, ":")
		isKind := slices.Contains(kinds, Kind(entry))
		switch {
		case seen[entry]:
			mistakes = append(mistakes, order.at("", entry+" is named twice"))
			continue
		case kind == string(Applied):
			mistakes = append(mistakes, order.at("", "applied is always the last source: leave it out"))
			continue
		case !slices.Contains(kinds, Kind(kind)) || !isKind && len(validation.IsDNS1123Label(name)) > 0:
			mistakes = append(mistakes,
				order.at("", fmt.Sprintf("%q is no source; want file, http, oci, relay, api, or a name such as file:NAME", entry)))
			continue
		}
		seen[entry] = true
		s, known := ofName[entry]
		switch {
		case isKind:
			for _, s := range ofKind[Kind(entry)] {
				if s.Name == entry || !asked[s.Name] {
					place(s)
				}
			}
		case known:
			place(s)
		default:
			absent = append(absent, order.at("", "there is no source "+entry))
		}
	}
	for _, s := range sources {
		if !placed[s.Name] {
			out = append(out, s)
		}
	}
	for _, err := range document.Few(absent) {
		warnings = append(warnings, err.Error())
	}
	return out, warnings, errors.Join(document.Few(mistakes)...)
}

// checkNodes refuses invalid names of nodes.
func checkNodes(nodes *list) ([]string, error) {
	if nodes == nil {
		return nil, nil
	}
	if slices.Equal(nodes.values, []string{AllNodes}) {
		return nodes.values, nil
	}
	if len(nodes.values) == 0 {
		return nil, nodes.at("", `there is none; leave it out for this node, or give "*" for all`)
	}
	var mistakes []error
	for _, name := range nodes.values {
		if name == AllNodes {
			mistakes = append(mistakes, nodes.at("", `"*" means all nodes, and stands alone`))
		} else if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			mistakes = append(mistakes, nodes.at("", fmt.Sprintf("%q can't be a node's name: %s", name, problems[0])))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(nodes.values))), errors.Join(document.Few(mistakes)...)
}
