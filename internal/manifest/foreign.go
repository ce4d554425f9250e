package manifest

import (
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

// coreScheme has the kinds of the API group of v1.Pod.
var coreScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	// AddToScheme fails only for types that differ, which can't happen in a new scheme.
	_ = v1.AddToScheme(scheme)
	return scheme
}()

var (
	kindName   = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{1,62}$`)
	apiVersion = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
	// plainName matches the characters of names of all kinds, those of RBAC included.
	plainName = regexp.MustCompile(`^[A-Za-z0-9._:@-]{1,253}$`)
)

// foreignIdentity returns KIND NAMESPACE/NAME of a document's object if it is certainly of a kind that isn't read.
// Empty: it isn't, or may be a misspelt kind that is. Two documents without the separator between them have some of
// these keys twice.
func foreignIdentity(tree map[string]any, doubled []doubledKey) string {
	version, kind, err := typeOf(tree)
	if err != nil || !isForeign(version, kind) || len(doubled) >= maxDoubled || slices.ContainsFunc(doubled, isHead) {
		return ""
	}
	meta, _ := tree["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, ok := meta["namespace"].(string)
	if meta["namespace"] == nil || ok && namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	if !plainName.MatchString(name) || len(validation.IsDNS1123Label(namespace)) > 0 {
		return ""
	}
	return kind + " " + namespace + "/" + name
}

// isHead reports whether a key is part of a document's type or name.
func isHead(d doubledKey) bool {
	return slices.Contains([]string{"apiVersion", "kind", "metadata", "metadata.name", "metadata.namespace"}, d.path)
}

// isForeign reports whether a type is certainly one that isn't read: another kind of the core group, or one of
// another group. A list may have any items.
func isForeign(version, kind string) bool {
	group, version, ok := strings.Cut(version, "/")
	if !ok {
		return group == "v1" && isOtherCoreKind(kind)
	}
	return len(validation.IsDNS1123Subdomain(group)) == 0 && apiVersion.MatchString(version) && kindName.MatchString(kind) &&
		!strings.HasSuffix(kind, "List") && !slices.ContainsFunc(readKinds, func(read string) bool { return strings.EqualFold(read, kind) })
}

var readKinds = func() []string {
	names := []string{"Pod"}
	for _, k := range objectKinds {
		names = append(names, k.String())
	}
	return names
}()

// readDocuments are the documents that are read, for messages.
const readDocuments = "v1 Pod, ConfigMap, Secret, PersistentVolumeClaim and PersistentVolume, and storage.k8s.io/v1 CSIDriver documents"

// isOtherCoreKind is isForeign for apiVersion v1.
func isOtherCoreKind(kind string) bool {
	if slices.Contains(readKinds, kind) {
		return false
	}
	object, err := coreScheme.New(v1.SchemeGroupVersion.WithKind(kind))
	if err != nil {
		return false
	}
	_, single := object.(metav1.Object)
	return single
}

// foreign reports an object of a kind that isn't read.
func (p *parser) foreign(d *document, tree map[string]any, r *report) {
	if p.opts.Strict {
		p.document(d, r)
		return
	}
	version, kind, err := typeOf(tree)
	if err != nil {
		r.reject("", err)
		return
	}
	r.tree, r.discreet = tree, true
	r.add(Ignored, "kind", problemf("kind %s isn't read: only %s are", kindText(version, kind), word(readDocuments)))
}
