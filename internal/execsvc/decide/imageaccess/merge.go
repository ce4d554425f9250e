package imageaccess

import (
	"cmp"
	"slices"

	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// The bounds of a record: how many repositories it has, and how many pull secrets and service accounts in all and of
// each kind for one repository. A record within them has less than two megabytes. What it loses must be pulled again:
// that gives no access.
const (
	maxRepositories = 100
	maxEntries      = 1000
	maxOfKind       = maxEntries / 2
)

// complete is the key of an entry in a record that has all repositories by which its image was pulled. It is no name of
// a repository, so it means nothing to a kubelet; and a kubelet's records don't have it.
const complete = "podstream.io/*"

// NewRecord returns the record of an image that hasn't been pulled before.
func NewRecord(id string) *Record {
	return &Record{ImageRef: id, CredentialMapping: map[string]kubeletconfigv1beta1.ImagePullCredentials{complete: {}}}
}

// Merge adds the logins with which an image of the repository was pulled to its record, and reports whether that
// changed it. No logins: it isn't known how the image was pulled.
func Merge(r *Record, repository string, logins []Login) (changed bool) {
	for _, login := range logins {
		changed = merge(r, repository, login) || changed
	}
	if _, ok := r.CredentialMapping[repository]; !ok {
		set(r, repository, kubeletconfigv1beta1.ImagePullCredentials{})
		changed = true
	}
	if changed {
		bound(r, repository)
	}
	return changed
}

// Incomplete records that the image has names by which it may have been pulled and that aren't in the record, and reports
// whether that changed it.
func Incomplete(r *Record) (changed bool) {
	_, changed = r.CredentialMapping[complete]
	delete(r.CredentialMapping, complete)
	return changed
}

func merge(r *Record, repository string, login Login) bool {
	has := r.CredentialMapping[repository]
	switch {
	case has.NodePodsAccessible,
		login.Secret != nil && slices.Contains(has.KubernetesSecrets, *login.Secret),
		login.Account != nil && slices.Contains(has.KubernetesServiceAccounts, *login.Account):
		return false
	case login.Secret != nil:
		secrets := slices.DeleteFunc(slices.Clone(has.KubernetesSecrets), func(s Secret) bool { return sameObject(s, *login.Secret) })
		secrets = secrets[max(0, len(secrets)-maxOfKind+1):]
		has.KubernetesSecrets = slices.Concat(secrets, []Secret{*login.Secret})
		slices.SortFunc(has.KubernetesSecrets, func(a, b Secret) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
	case login.Account != nil:
		accounts := has.KubernetesServiceAccounts
		accounts = accounts[max(0, len(accounts)-maxOfKind+1):]
		has.KubernetesServiceAccounts = slices.Concat(accounts, []Account{*login.Account})
		slices.SortFunc(has.KubernetesServiceAccounts, func(a, b Account) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
	default:
		has = kubeletconfigv1beta1.ImagePullCredentials{NodePodsAccessible: true}
	}
	set(r, repository, has)
	return true
}

func set(r *Record, repository string, c kubeletconfigv1beta1.ImagePullCredentials) {
	if r.CredentialMapping == nil {
		r.CredentialMapping = map[string]kubeletconfigv1beta1.ImagePullCredentials{}
	}
	r.CredentialMapping[repository] = c
}

// bound removes other repositories until the record is within its bounds; then it isn't complete. It takes them in the
// order of the map, which the author of a pod can't choose.
func bound(r *Record, repository string) {
	entries := 0
	for _, c := range r.CredentialMapping {
		entries += len(c.KubernetesSecrets) + len(c.KubernetesServiceAccounts)
	}
	for name, c := range r.CredentialMapping {
		if len(r.CredentialMapping) <= maxRepositories && entries <= maxEntries {
			return
		}
		delete(r.CredentialMapping, complete)
		if name != repository {
			entries -= len(c.KubernetesSecrets) + len(c.KubernetesServiceAccounts)
			delete(r.CredentialMapping, name)
		}
	}
}
