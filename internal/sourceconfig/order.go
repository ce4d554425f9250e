package sourceconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// prioritize puts the sources, which are in the default order, into the one that is asked for. An entry is a source's name, or a
// kind, which stands for all of it that aren't named. What no entry names comes last, in the default order. A name that no source has
// is only warned of: sources come and go with their files.
func prioritize(sources []Source, order *list) (out []Source, warnings []string, err error) {
	if order == nil {
		return sources, nil, nil
	}
	var mistakes []error
	seen := map[string]bool{}
	for _, entry := range order.values {
		kind, name, _ := strings.Cut(entry, ":")
		isKind := slices.Contains(kinds, Kind(entry))
		switch {
		case seen[entry]:
			mistakes = append(mistakes, order.at("", entry+" is named twice"))
			continue
		case !slices.Contains(kinds, Kind(kind)) || !isKind && len(validation.IsDNS1123Label(name)) > 0:
			mistakes = append(mistakes,
				order.at("", fmt.Sprintf("%q is no source; want file, http, relay, api, or a name such as file:NAME", entry)))
			continue
		}
		seen[entry] = true
		found := isKind
		for _, s := range sources {
			if s.Name == entry || isKind && s.Kind == Kind(entry) && !slices.Contains(order.values, s.Name) {
				out, found = append(out, s), true
			}
		}
		if !found {
			warnings = append(warnings, order.at("", "there is no source "+entry).Error())
		}
	}
	for _, s := range sources {
		if !slices.ContainsFunc(out, func(o Source) bool { return o.Name == s.Name }) {
			out = append(out, s)
		}
	}
	return out, warnings, errors.Join(mistakes...)
}

// checkNodes refuses names that no node can have.
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
	return slices.Compact(slices.Sorted(slices.Values(nodes.values))), errors.Join(mistakes...)
}
