package differential

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/kubernetes/pkg/util/parsers"
)

// PodRule is an intended difference between the kubelet's and Podstream's results for a manifest.
type PodRule struct {
	Name string
	Kind Kind
	// Reason is what the kubelet does, and why Podstream does something else.
	Reason string
	// Field and Message must match the difference. Nil matches everything.
	Field, Message *regexp.Regexp
	// When narrows the rule further. Nil means that it doesn't.
	When func(m *Mutant, d PodDifference) bool
	// Without is the path of a field that Podstream ignores. The kubelet can't decode the manifest with this
	// field, but can without it.
	Without []any
}

// explains reports whether the difference is a case of the rule.
func (r *PodRule) explains(m *Mutant, d PodDifference) bool {
	return d.Kind == r.Kind && (r.Field == nil || r.Field.MatchString(d.Field)) &&
		(r.Message == nil || r.Message.MatchString(d.Message)) && (r.When == nil || r.When(m, d))
}

// serverMetadata are the fields of the metadata that only an API server sets.
var serverMetadata = regexp.MustCompile(`^metadata\.(creationTimestamp|deletionTimestamp|deletionGracePeriodSeconds|finalizers|generateName|` +
	`generation|managedFields|ownerReferences|resourceVersion|selfLink)\b`)

// PodRules are all intended differences between the results for a manifest. Each has an example in
// TestPodRules.
var PodRules = []PodRule{
	{
		Name: "kindOfPod", Kind: Content, Field: regexp.MustCompile(`^(kind|apiVersion)$`),
		Reason: "The kubelet's pod has no kind. Podstream's has one, as it is sent to consumers of other languages.",
		When:   func(_ *Mutant, d PodDifference) bool { return d.Kubelet == absent{} },
	},
	{
		Name: "uidOfManifest", Kind: Content, Field: regexp.MustCompile(`^metadata\.(uid|annotations\.kubernetes\.io/config\.hash)$`),
		Reason: "The kubelet hashes its Go struct, which changes from version to version. Podstream hashes the manifest as written.",
		When: func(m *Mutant, _ PodDifference) bool {
			metadata, _ := m.Tree["metadata"].(map[string]any)
			uid, _ := metadata["uid"].(string)
			return uid == ""
		},
	},
	{
		Name: "metadataOfServer", Kind: Content, Field: serverMetadata,
		Reason: "The kubelet keeps metadata that only an API server can set. Podstream leaves it out with a warning: a static pod with a " +
			"deletionTimestamp would be deleted.",
		When: func(_ *Mutant, d PodDifference) bool { return d.Podstream == absent{} },
	},
	{
		Name: "metadataOfServerInvalid", Kind: RefusedThere, Field: serverMetadata,
		Reason: "The kubelet validates metadata that only an API server can set. Podstream leaves it out with a warning.",
	},
	{
		Name: "annotationsOfNode", Kind: Content,
		Field:  regexp.MustCompile(`^metadata\.annotations\.(kubernetes\.io/config\.(mirror|source|seen)|podstream\.io/relay-path)$`),
		Reason: "The kubelet keeps its own annotations from a manifest. Podstream leaves them out with a warning: they decide on the pod's source.",
		When:   func(_ *Mutant, d PodDifference) bool { return d.Podstream == absent{} },
	},
	{
		Name: "statusOfManifest", Kind: Content, Field: regexp.MustCompile(`^status\.`),
		Reason: "The kubelet keeps a status from a manifest but for its phase. Podstream leaves it out with a warning: only the node knows it.",
		When:   func(_ *Mutant, d PodDifference) bool { return d.Podstream == absent{} },
	},
	{
		Name: "statusInvalid", Kind: RefusedThere, Field: regexp.MustCompile(`^$`), Without: []any{"status"},
		Reason: "The kubelet refuses a manifest whose status can't be decoded. Podstream leaves the status out before.",
	},
	{
		Name: "objectsBesideManifests", Kind: RefusedThere, Message: regexp.MustCompile(`^static pods may not reference (secrets|configmaps)\b`),
		Reason: "The kubelet refuses a static pod that refers to a ConfigMap or Secret. Podstream serves those that lie beside the manifests.",
	},
	{
		Name: "otherNode", Kind: RefusedHere, Field: regexp.MustCompile(`^spec\.nodeName$`),
		Reason: "The kubelet runs a pod that is bound to another node. Podstream refuses it: the manifest was put on the wrong node.",
	},
	{
		Name: "uidOfDirectory", Kind: RefusedHere, Field: regexp.MustCompile(`^metadata\.uid$`),
		Reason: "The kubelet takes any UID. Podstream refuses one that isn't fit for the name of a directory, or is too long for a label.",
	},
	{
		Name: "mediumThatNeverIs", Kind: RefusedHere, Field: regexp.MustCompile(`^spec\.volumes\[\d+\]\.emptyDir\.medium$`),
		Reason: "The kubelet accepts the pod, and fails to make the volume for ever. Podstream refuses the manifest and keeps its last good version.",
	},
	{
		Name: "seccompProfileWithoutName", Kind: RefusedHere, Field: regexp.MustCompile(`\.seccompProfile\.localhostProfile$`),
		Message: regexp.MustCompile(`^Required value`),
		Reason:  "The kubelet accepts an empty localhostProfile, and never creates the container. Podstream refuses the manifest.",
	},
	{
		Name: "pullPolicyOfNoImage", Kind: Content, Field: regexp.MustCompile(`(imagePullPolicy|image\.pullPolicy)$`),
		Reason: "The default pull policy of an image whose name can't be parsed is IfNotPresent with the kubelet, and by the tag with Podstream. " +
			"Neither can pull it.",
		When: func(m *Mutant, d PodDifference) bool {
			for _, s := range sitesOf(m.Tree, podType) {
				if pathText(s.path) == imageField(d.Field) {
					name, _ := s.value.(string)
					_, _, _, err := parsers.ParseImageName(name)
					return err != nil
				}
			}
			return false
		},
	},
	// The rest are changes in Kubernetes between the compared version and the version of Podstream's API
	// types.
	{
		Name: "seLinuxMountOption", Kind: RefusedThere, Field: regexp.MustCompile(`^spec\.securityContext\.seLinuxChangePolicy$`),
		Message: regexp.MustCompile(`^Unsupported value: "MountOption"`),
		Reason:  "Kubernetes 1.37 allows MountOption, 1.35 only behind the gate SELinuxMount.",
	},
	{
		Name: "restartAllContainers", Kind: RefusedThere,
		Field:   regexp.MustCompile(`^spec\.(initContainers|containers)\[\d+\]\.restartPolicyRules(\[\d+\]\.action)?$`),
		Message: regexp.MustCompile(`^(Unsupported value: "RestartAllContainers"|Forbidden: restartPolicyRules are not allowed for init containers)`),
		Reason:  "Kubernetes 1.36 has the action RestartAllContainers, and allows rules for sidecars.",
	},
	{
		Name: "workloadRef", Kind: RefusedThere, Field: regexp.MustCompile(`^spec\.workloadRef\b`),
		Reason: "Kubernetes 1.36 has no workloadRef any more: it is an unknown field, and ignored with a warning.",
	},
	{
		Name: "workloadRefInvalid", Kind: RefusedThere, Field: regexp.MustCompile(`^$`), Without: []any{"spec", "workloadRef"},
		Reason: "Kubernetes 1.36 has no workloadRef any more, so one that can't be decoded is ignored with a warning.",
	},
	{
		Name: "workloadRefContent", Kind: Content, Field: regexp.MustCompile(`^spec\.workloadRef\b`),
		Reason: "Kubernetes 1.36 has no workloadRef any more: it is an unknown field, and ignored with a warning.",
		When:   func(_ *Mutant, d PodDifference) bool { return d.Podstream == absent{} },
	},
	{
		Name: "sysAdminWithoutPrefix", Kind: RefusedHere, Field: regexp.MustCompile(`\.securityContext\.allowPrivilegeEscalation$`),
		Message: regexp.MustCompile(`CAP_SYS_ADMIN`),
		Reason:  "Kubernetes 1.37 refuses SYS_ADMIN with allowPrivilegeEscalation false, 1.35 only CAP_SYS_ADMIN.",
	},
	{
		Name: "resizeOfInitContainer", Kind: RefusedHere,
		Field:  regexp.MustCompile(`^spec\.initContainers\[\d+\]\.resizePolicy\[\d+\]\.restartPolicy$`),
		Reason: "Kubernetes 1.36 refuses RestartContainer for an init container that runs to its end.",
	},
	{
		Name: "imageVolumeWithoutName", Kind: RefusedHere, Field: regexp.MustCompile(`^spec\.volumes\[\d+\]\.image\.reference$`),
		Message: regexp.MustCompile(`^Required value`),
		Reason:  "Kubernetes 1.37 refuses an image volume without a reference, 1.35 doesn't.",
	},
}

// imageField returns the path of the image that a pull policy is for.
func imageField(policy string) string {
	if field, ok := strings.CutSuffix(policy, "imagePullPolicy"); ok {
		return field + "image"
	}
	return strings.TrimSuffix(policy, "pullPolicy") + "reference"
}

// explain returns the name of the rule that explains a difference, or an empty string.
func explain(m *Mutant, d PodDifference) string {
	for i := range PodRules {
		if r := &PodRules[i]; r.explains(m, d) && (r.Without == nil || isDecodable(m, r.Without)) {
			return r.Name
		}
	}
	return ""
}

// isDecodable reports whether the kubelet can't decode the manifest, but can without the field, or without
// another ignored field. Other errors in the manifest then have their own rules.
func isDecodable(m *Mutant, without []any) bool {
	if decoded(Kubelet(m.Manifest)) {
		return false
	}
	tree := copied(m.Tree).(map[string]any)
	if !remove(tree, without) {
		return false
	}
	bare := &Mutant{Tree: tree}
	var err error
	if bare.Manifest, err = manifestOf(tree); err != nil {
		return false
	}
	result := Kubelet(bare.Manifest)
	if !decoded(result) {
		return explain(bare, PodDifference{Kind: RefusedThere}) != ""
	}
	for _, e := range result.Invalid {
		if explain(bare, PodDifference{Kind: RefusedThere, Field: e.Field, Message: e.ErrorBody()}) == "" {
			return false
		}
	}
	return true
}

// decoded reports whether the kubelet decoded the pod and validated it.
func decoded(r KubeletResult) bool { return r.Pod != nil || len(r.Invalid) > 0 }

// remove removes a field, and reports whether it existed.
func remove(tree map[string]any, path []any) bool {
	for _, s := range sitesOf(tree, podType) {
		if slices.Equal(s.path, path) {
			replaceAt(tree, path, func(any) (any, bool) { return nil, false })
			return true
		}
	}
	return false
}
