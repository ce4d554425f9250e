package service

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/failpoint"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
)

const (
	// confirmTime is how long a confirmation is valid.
	confirmTime = 60 * time.Second
	// maxConfirmations bounds the memory. A new one displaces the oldest one.
	maxConfirmations = 32
)

// errUnconfirmed: the user hasn't confirmed this request.
var errUnconfirmed = errors.New("it isn't confirmed: the confirmation is used, is older than a minute, or was for another request")

// Confirmations are those that the page may use: each one once, and for the very request for which it was made. It is safe for
// concurrent use.
type Confirmations struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	made []confirmation
}

type confirmation struct {
	text    string
	action  [sha256.Size]byte
	expires time.Time
}

// NewConfirmations returns Confirmations without any.
func NewConfirmations(c clock.PassiveClock) *Confirmations { return &Confirmations{clock: c} }

// digest returns the hash of an action.
func digest(action *podwebv1.Action) ([sha256.Size]byte, error) {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(action)
	return sha256.Sum256(encoded), err
}

// New returns a confirmation for an action.
func (c *Confirmations) New(action *podwebv1.Action) (string, error) {
	hash, err := digest(action)
	if err != nil {
		return "", err
	}
	text := make([]byte, 32)
	_, _ = rand.Read(text) // It never fails.
	one := confirmation{base64.RawURLEncoding.EncodeToString(text), hash, c.clock.Now().Add(confirmTime)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.made) == maxConfirmations {
		c.made = slices.Delete(c.made, 0, 1)
	}
	c.made = append(c.made, one)
	return one.text, nil
}

// Use uses a confirmation up. Its error is errUnconfirmed.
func (c *Confirmations) Use(text string, action *podwebv1.Action) error {
	if failpoint.Active(failpoint.WebConfirmation) {
		return nil
	}
	hash, err := digest(action)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.made, func(one confirmation) bool { return one.text == text })
	if i < 0 {
		return errUnconfirmed
	}
	one := c.made[i]
	// It is used up whatever comes of it.
	c.made = slices.Delete(c.made, i, i+1)
	if one.action != hash || !c.clock.Now().Before(one.expires) {
		return errUnconfirmed
	}
	return nil
}
