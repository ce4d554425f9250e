package pullrecord

import (
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// names are the runtime's names of an image: repositories with a tag or a digest.
type names struct {
	all []string
	// untagged has the repositories of which the image has a digest and no tag.
	untagged map[string]bool
}

func namesOf(image *runtimeapi.Image) names {
	return parseNames(slices.Concat(image.GetRepoTags(), image.GetRepoDigests()))
}

func parseNames(all []string) names {
	n := names{all: all, untagged: map[string]bool{}}
	for _, name := range all {
		if repository, _, ok := strings.Cut(name, "@"); ok {
			n.untagged[repository] = true
		}
	}
	for _, name := range all {
		if at := strings.LastIndexByte(name, ':'); at >= 0 && !strings.Contains(name, "@") {
			delete(n.untagged, name[:at])
		}
	}
	return n
}

// in reports whether a name is of the repository.
func (n names) in(repository string) bool {
	return slices.ContainsFunc(n.all, func(name string) bool {
		rest, ok := strings.CutPrefix(name, repository)
		return ok && (strings.HasPrefix(rest, "@") || strings.HasPrefix(rest, ":") && !strings.Contains(rest, "/"))
	})
}

// spellings returns the names in pods' specs that mean the same as a full name.
func spellings(full string) []string {
	all := []string{full}
	if path, ok := strings.CutPrefix(full, "docker.io/"); ok {
		all = append(all, path, "index.docker.io/"+path)
		if short, ok := strings.CutPrefix(path, "library/"); ok && !strings.Contains(short, "/") {
			all = append(all, short, "docker.io/"+short, "index.docker.io/"+short)
		}
	}
	for _, name := range slices.Clone(all) {
		if untagged, ok := strings.CutSuffix(name, ":latest"); ok {
			all = append(all, untagged)
		}
	}
	return all
}
