package archive

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/podstream/podstream/internal/sources/fault"
)

// cleanName returns a path in an archive without what means nothing, such as a leading "./". The path of the archive
// itself is ".". A path that leads out of the archive, is too long, or isn't printable is an error.
func cleanName(name string) (string, error) {
	wrong := func(why string) (string, error) { return "", fault.Newf("the path %s in it %s", quote(name), why) }
	switch {
	case len(name) > maxName:
		return wrong("is too long")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return wrong("has characters that aren't printable")
	case strings.ContainsAny(name, `\#`):
		// A backslash separates elements elsewhere, and "#" the artifact's name from the path.
		return wrong(`has a "\" or a "#"`)
	case name == "" || path.IsAbs(name):
		return wrong("isn't relative")
	}
	elements := strings.Split(name, "/")
	if slices.Contains(elements, "..") {
		return wrong(`has a ".."`)
	}
	if len(elements) > maxDepth {
		return wrong("is too deep")
	}
	return path.Clean(name), nil
}

// isManifest reports whether a file's name is that of a manifest.
func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

// isHidden reports whether the file, or a directory on its path, is hidden.
func isHidden(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(element string) bool { return strings.HasPrefix(element, ".") })
}

// quote makes a name fit for all callers.
func quote(name string) string {
	const most = 60
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == '"' {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(name, "?"))
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + fault.Hidden
	}
	return `"` + name + `"`
}
