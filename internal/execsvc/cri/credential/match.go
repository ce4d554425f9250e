package credential

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/podstream/podstream/internal/dockerconfig"
	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// login is a name and a password for the repositories that a pattern matches.
type login struct {
	pattern                   dockerconfig.Pattern
	username, password, email string
	// secret and account are the origin of a login that isn't for all pods of the node. secret has no hash.
	secret  *imageaccess.Secret
	account *imageaccess.Account
}

// hash returns the login's hash in the records of pulls, in which it must be the kubelet's.
func (l login) hash() string {
	text, _ := json.Marshal(struct { //nolint:errchkjson // It has only strings.
		Username string `json:"username,omitempty"`
		Password string `json:"password,omitempty"`
		Email    string `json:"email,omitempty"`
	}{l.username, l.password, l.email})
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// tracked returns the login with its origin.
func (l login) tracked() imageaccess.Login {
	out := imageaccess.Login{Username: l.username, Password: l.password, Account: l.account}
	if l.secret != nil {
		secret := *l.secret
		secret.CredentialHash = l.hash()
		out.Secret = &secret
	}
	return out
}

// choose returns the logins that match, the most specific pattern first: longer ones before their prefixes, and those
// without a glob before those with one. Those of one pattern stay in their order.
func choose(logins []login, repository string) []imageaccess.Login {
	matching := slices.DeleteFunc(slices.Clone(logins), func(l login) bool { return !l.pattern.Matches(repository) })
	slices.SortStableFunc(matching, func(a, b login) int { return strings.Compare(b.pattern.String(), a.pattern.String()) })
	var out []imageaccess.Login
	for _, l := range matching {
		out = append(out, l.tracked())
	}
	return out
}
