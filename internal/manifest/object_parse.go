package manifest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podstream/podstream/internal/manifest/validate"
)

// object adds the object of one document to the origin, unless there is an Error finding.
func (p *parser) object(kind ObjectKind, tree map[string]any, doubled []doubledKey, r *report) {
	switch kind {
	case ConfigMapKind:
		p.configMap(tree, doubled, r)
	case SecretKind:
		p.secret(tree, doubled, r)
	case ClaimKind:
		p.claim(tree, doubled, r)
	case VolumeKind:
		p.volume(tree, doubled, r)
	case DriverKind:
		p.driver(tree, doubled, r)
	}
}

// configMap adds the ConfigMap of one document to the origin, unless there is an Error finding.
func (p *parser) configMap(tree map[string]any, doubled []doubledKey, r *report) {
	c := &v1.ConfigMap{}
	if !p.decodeObject(tree, doubled, c, ConfigMapKind, r) {
		return
	}
	adoptObject(&c.ObjectMeta, ConfigMapKind, r)
	p.acceptObject(append(validate.ObjectMeta(&c.ObjectMeta), validate.ConfigMap(c)...), r, func() (*Object, error) {
		return NewConfigMap(c)
	})
}

// secret adds the Secret of one document to the origin, unless there is an Error finding. Its report is discreet.
func (p *parser) secret(tree map[string]any, doubled []doubledKey, r *report) {
	s := &v1.Secret{}
	if !p.decodeObject(tree, doubled, s, SecretKind, r) {
		return
	}
	adoptObject(&s.ObjectMeta, SecretKind, r)
	setSecretDefaults(s)
	p.acceptObject(append(validate.ObjectMeta(&s.ObjectMeta), validate.Secret(s)...), r, func() (*Object, error) {
		return NewSecret(s)
	})
}

// decodeObject decodes a document into an object of the kind, and reports errors in its fields.
func (p *parser) decodeObject(tree map[string]any, doubled []doubledKey, into runtime.Object, kind ObjectKind, r *report) bool {
	for _, d := range doubled {
		r.strict(p.opts.Strict, d.path, d.problem(), "the last one counts")
	}
	text, err := encodeTree(tree)
	if err != nil {
		r.reject("", err)
		return false
	}
	unknown, err := decodeInto(into, kind.GroupVersionKind(), text)
	if err != nil {
		at, why := explainObject(err, tree, kind)
		r.reject(at, why)
		return false
	}
	for _, u := range unknown {
		r.strict(p.opts.Strict, u.path, u.problem, "it is ignored")
	}
	return true
}

// explainObject returns why an object can't be decoded, and which field is wrong.
func explainObject(err error, tree map[string]any, kind ObjectKind) (at string, why *problem) {
	var e *json.UnmarshalTypeError
	if errors.As(err, &e) {
		return explainType(e, tree)
	}
	encoded := "data"
	plain := word("text goes into stringData")
	if kind == ConfigMapKind {
		encoded, plain = "binaryData", "text goes into data"
	}
	var values map[string]any
	if kind == ConfigMapKind || kind == SecretKind {
		values, _ = tree[encoded].(map[string]any)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		text, ok := values[key].(string)
		if !ok {
			continue
		}
		if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			return encoded + "[" + key + "]", problemf("isn't base64: %s", plain)
		}
	}
	return "", problemf("this isn't a %s %s: %v", word(kind.GroupVersionKind().GroupVersion().String()), word(kind.String()), err)
}

// adoptObject makes an object as written one of this node's.
func adoptObject(m *metav1.ObjectMeta, kind ObjectKind, r *report) {
	adoptMeta(m, r)
	if m.UID != "" {
		r.warnf("metadata.uid", "is ignored: it means nothing in a manifest")
		m.UID = ""
	}
	switch {
	case !kind.Namespaced() && m.Namespace != "":
		r.errorf("metadata.namespace", "must be empty: a %s has no namespace", word(kind.String()))
	case kind.Namespaced() && m.Namespace == "":
		m.Namespace = metav1.NamespaceDefault
	}
}

// setSecretDefaults sets the API server's defaults of a Secret: stringData overrides data, and the type is Opaque.
func setSecretDefaults(s *v1.Secret) {
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
	if s.Type == "" {
		s.Type = v1.SecretTypeOpaque
	}
}

// acceptObject measures and digests a valid object.
func (p *parser) acceptObject(errs field.ErrorList, r *report, digest func() (*Object, error)) {
	for _, err := range errs {
		r.reject(err.Field, refusal(err))
	}
	if r.failed {
		return
	}
	o, err := digest()
	if err != nil {
		r.reject("", err)
		return
	}
	o.Document = r.document
	p.origin.Objects = append(p.origin.Objects, o)
}
