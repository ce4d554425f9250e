package door

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/failpoint"
)

// The errors of Sessions.Open.
var (
	// ErrTicketUsed: the ticket was exchanged before. Another program may have read it.
	ErrTicketUsed = errors.New("the link was used before")
	// ErrTicketExpired: the ticket was valid for a minute.
	ErrTicketExpired = errors.New("the link has expired")
	// ErrTicketUnknown: the ticket isn't one of this podctl web.
	ErrTicketUnknown = errors.New("the link isn't one of this podctl web")
)

const (
	// TicketTime is how long a ticket is valid.
	TicketTime = 60 * time.Second
	// maxTickets and maxSessions bound the memory. A new one displaces the oldest one.
	maxTickets, maxSessions = 64, 16
)

// secret is the hash of a token. Hashes may be compared in any time.
type secret [sha256.Size]byte

// Sessions has the valid tickets and sessions. It is safe for concurrent use.
type Sessions struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	tickets  []ticket
	sessions []secret
}

type ticket struct {
	secret  secret
	expires time.Time
	used    bool
}

// NewSessions returns Sessions without any.
func NewSessions(c clock.PassiveClock) *Sessions { return &Sessions{clock: c} }

// token returns 256 random bits as text, and their hash.
func token() (string, secret) {
	text := make([]byte, 32)
	_, _ = rand.Read(text) // It never fails.
	encoded := base64.RawURLEncoding.EncodeToString(text)
	return encoded, sha256.Sum256([]byte(encoded))
}

// NewTicket returns a ticket for one session.
func (s *Sessions) NewTicket() string {
	text, hash := token()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tickets) == maxTickets {
		s.tickets = slices.Delete(s.tickets, 0, 1)
	}
	s.tickets = append(s.tickets, ticket{secret: hash, expires: s.clock.Now().Add(TicketTime)})
	return text
}

// Open exchanges a ticket for a session's token. Its errors are those above.
func (s *Sessions) Open(text string) (string, error) {
	hash := secret(sha256.Sum256([]byte(text)))
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.tickets, func(t ticket) bool { return t.secret == hash })
	switch {
	case i < 0:
		return "", ErrTicketUnknown
	case s.tickets[i].used && !failpoint.Active(failpoint.WebTicketOnce):
		return "", ErrTicketUsed
	case !s.clock.Now().Before(s.tickets[i].expires) && !failpoint.Active(failpoint.WebTicketTime):
		return "", ErrTicketExpired
	}
	s.tickets[i].used = true
	session, hash := token()
	if len(s.sessions) == maxSessions {
		s.sessions = slices.Delete(s.sessions, 0, 1)
	}
	s.sessions = append(s.sessions, hash)
	return session, nil
}

// Valid reports whether the token is that of a session.
func (s *Sessions) Valid(token string) bool {
	hash := secret(sha256.Sum256([]byte(token)))
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.sessions, hash)
}
