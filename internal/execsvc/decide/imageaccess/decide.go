package imageaccess

import (
	"slices"
	"strings"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podstream/podstream/internal/imagepolicy"
)

type (
	// Record is the kubelet's record of a pulled image, and of the credentials that were good for it.
	Record = kubeletconfigv1beta1.ImagePulledRecord
	// Secret are the coordinates of a pull secret in a Record.
	Secret = kubeletconfigv1beta1.ImagePullSecret
	// Account are the coordinates of a service account in a Record.
	Account = kubeletconfigv1beta1.ImagePullServiceAccount
)

// Login is a name and a password for a registry, and their origin.
type Login struct {
	Username, Password string
	// Secret is set for a login from a pull secret of the pod, Account for one that a credential provider returned for
	// the pod's service account. Neither: all pods of the node may use it.
	Secret  *Secret
	Account *Account
}

// sourcePrefix begins the UID of a Secret that isn't an object of an API server.
const sourcePrefix = "source:"

// SourceUID returns the UID in the coordinates of a Secret that has none because it stands beside manifests.
func SourceUID(source string) string { return sourcePrefix + source }

// Use is a pod's use of an image that the node has.
type Use struct {
	// ID is the image's ID in the runtime, Repository the repository in the pod's spec with its registry, and Name the
	// same with the tag or the digest. Given is the text in the spec.
	ID, Repository, Name, Given string
	// Names are the runtime's names of the image.
	Names []string
	// Secrets returns the logins for the repository in the pod's pull secrets.
	Secrets func() []Login
	// Account is the service account for which a credential provider returned credentials; nil: there is none. It is
	// valid if AccountKnown is set.
	Account      *Account
	AccountKnown bool
}

// Known is what is known about the image.
type Known struct {
	// Pulled is set if it was pulled for a pod, or may have been. IntendedBySameName is set if it may be from a
	// pull of the repository in the pod's spec that isn't recorded yet.
	Pulled, IntendedBySameName bool
	// Record is the record of its pulls. Nil: there is none. Damaged is set if there is one that can't be read: then
	// the image must be pulled, under each policy, as with the kubelet.
	Record  *Record
	Damaged bool
}

// Access is whether the pod may use the image without a pull.
type Access int

// The values of Access.
const (
	// Denied: the pod has to pull the image with its own credentials.
	Denied Access = iota
	// Allowed: it may use the image.
	Allowed
	// Unknown: it depends on Use.Account, which isn't known.
	Unknown
)

// The kubelet's values of the label result of kubelet_imagemanager_image_mustpull_checks_total.
const (
	PolicyAllowed    = "credentialPolicyAllowed"
	RecordFound      = "credentialRecordFound"
	MustAuthenticate = "mustAuthenticate"
	CheckError       = "error"
)

// Decision is the result of Decide.
type Decision struct {
	Access
	// Result is the value for the metric.
	Result string
	// Learned is a pull secret that the record should have from now on. Nil: none.
	Learned *Secret
}

// learnLimit is how many pull secrets the record of a repository has at most before none is learned without a pull. It
// is the kubelet's.
const learnLimit = 100

// Decide returns whether the pod may use the image.
func Decide(p imagepolicy.Policy, u Use, k Known) Decision {
	if k.Damaged {
		return Decision{Result: CheckError}
	}
	if !p.Verifies(u.Repository, k.Pulled && !loaded(u, k)) {
		return Decision{Access: Allowed, Result: PolicyAllowed}
	}
	if k.Record == nil {
		return Decision{Result: MustAuthenticate}
	}
	had, ok := k.Record.CredentialMapping[u.Repository]
	if !ok {
		return Decision{Result: MustAuthenticate}
	}
	if had.NodePodsAccessible {
		return Decision{Access: Allowed, Result: RecordFound}
	}
	if len(had.KubernetesSecrets) > 0 {
		for _, login := range u.Secrets() {
			if login.Secret == nil {
				continue
			}
			if allowed, learned := matches(*login.Secret, had.KubernetesSecrets); allowed {
				return Decision{Access: Allowed, Result: RecordFound, Learned: learned}
			}
		}
	}
	switch {
	case len(had.KubernetesServiceAccounts) == 0:
	case !u.AccountKnown:
		return Decision{Access: Unknown}
	case u.Account != nil && slices.Contains(had.KubernetesServiceAccounts, *u.Account):
		return Decision{Access: Allowed, Result: RecordFound}
	}
	return Decision{Result: MustAuthenticate}
}

// loaded reports whether the image was loaded under the name in the pod's spec, and not pulled. A runtime has a name for
// an image only from a pull of its repository, or from others than the node's agent; and the record has each repository
// that was pulled. So a pod that pulls a copy of a loaded image from a registry doesn't take the image from the pods that
// use it by its own name. The kubelet requires credentials from these too (kubernetes/kubernetes#138175).
func loaded(u Use, k Known) bool {
	if k.IntendedBySameName || !slices.Contains(u.Names, u.Name) {
		return false
	}
	if k.Record == nil {
		return true
	}
	_, pulled := k.Record.CredentialMapping[u.Repository]
	_, complete := k.Record.CredentialMapping[complete]
	return complete && !pulled
}

// matches reports whether a pull secret has the same login as one of the record, or is a later version of it. If the
// record should have it from now on, it is returned.
func matches(secret Secret, had []Secret) (allowed bool, learned *Secret) {
	for _, h := range had {
		sameLogin := h.CredentialHash != "" && h.CredentialHash == secret.CredentialHash
		same := sameObject(h, secret)
		switch {
		case sameLogin && same:
			return true, nil
		case sameLogin && len(had) < learnLimit, same && isObject(secret) && len(had) < learnLimit:
			return true, &secret
		case sameLogin:
			return true, nil
		}
	}
	return false, nil
}

func sameObject(a, b Secret) bool {
	return a.UID == b.UID && a.Namespace == b.Namespace && a.Name == b.Name
}

// isObject reports whether the Secret is an object of an API server. Only such an object has a UID that no other one
// gets: a Secret beside manifests that was replaced by another one of its name has the same coordinates, so that these
// prove nothing.
func isObject(s Secret) bool { return s.UID != "" && !strings.HasPrefix(s.UID, sourcePrefix) }
