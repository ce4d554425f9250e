package manifest

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// isDiscreet reports whether messages about a document must not quote it: unless it is certainly of a kind that has
// no secrets, it may be meant as a Secret. One that has two kinds may be two documents without the separator between
// them.
func isDiscreet(kind string, doubled []doubledKey) bool {
	if kind == SecretKind.String() || !slices.Contains(readKinds, kind) {
		return true
	}
	// Which keys are doubled beyond maxDoubled isn't known.
	return len(doubled) >= maxDoubled || slices.ContainsFunc(doubled, func(d doubledKey) bool { return d.path == "kind" })
}

// looksPod reports whether an item, which needs no kind, has what a Pod has and a Secret doesn't.
func looksPod(item map[string]any) bool {
	_, spec := item["spec"]
	_, data := item["data"]
	_, text := item["stringData"]
	return spec && !data && !text
}

// otherKinds are the kinds that are most often put beside pods. They can be named whatever else the document has.
var otherKinds = []string{
	"ConfigMapList (v1)", "CronJob (batch/v1)", "DaemonSet (apps/v1)", "Deployment (apps/v1)", "Ingress (networking.k8s.io/v1)",
	"Job (batch/v1)", "List (v1)", "Namespace (v1)", "PersistentVolume (v1)", "PersistentVolumeClaim (v1)", "PodList (v1)",
	"ReplicaSet (apps/v1)", "SecretList (v1)", "Service (v1)", "ServiceAccount (v1)", "StatefulSet (apps/v1)",
}

// kindText returns a document's type for a message: hidden from the unquoted wording, unless it is one of otherKinds.
func kindText(apiVersion, kind string) any {
	text := kind + " (" + apiVersion + ")"
	if slices.Contains(otherKinds, text) {
		return word(text)
	}
	return text
}

// discreetPath returns the part of a field's path in a discreet document that all callers may see: what knownPath
// knows, and one name of the document after it, if it is fit to be a key of a Secret. Another name is more likely a
// value in a wrong place, and what is below a key is its value.
func discreetPath(path string, tree map[string]any) string {
	known := knownPath(path)
	rest := path[len(known):]
	if key, ok := strings.CutPrefix(rest, "["); ok {
		// Validation names a key like this. The key may be one that is missing.
		if key, ok = strings.CutSuffix(key, "]"); ok && isDataKey(key) {
			return path
		}
		return known
	}
	object, _ := lookUp(tree, known).(map[string]any)
	rest = strings.TrimPrefix(rest, ".")
	longest := ""
	for key := range object {
		// A key may have dots itself.
		below, ok := strings.CutPrefix(rest, key)
		if ok && (below == "" || below[0] == '.' || below[0] == '[') && len(key) > len(longest) && isDataKey(key) {
			longest = key
		}
	}
	if longest == "" {
		return known
	}
	return strings.TrimPrefix(known+"."+longest, ".")
}

func isDataKey(key string) bool { return len(validation.IsConfigMapKey(key)) == 0 }

// lookUp returns the value that a path of known names and indexes leads to, or nil.
func lookUp(value any, path string) any {
	for _, name := range strings.FieldsFunc(path, func(c rune) bool { return strings.ContainsRune(".[]", c) }) {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}
