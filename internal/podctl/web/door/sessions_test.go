package door_test

import (
	"errors"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/podctl/web/door"
)

// TestTickets: a ticket opens one session, for a minute.
func TestTickets(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1000, 0))
	s := door.NewSessions(clock)
	one, two := s.NewTicket(), s.NewTicket()
	session, err := s.Open(one)
	if err != nil || !s.Valid(session) {
		t.Fatalf("a ticket opens %q, %v", session, err)
	}
	for text, want := range map[string]error{one: door.ErrTicketUsed, "": door.ErrTicketUnknown, session: door.ErrTicketUnknown, one + " ": door.ErrTicketUnknown} {
		if _, err := s.Open(text); !errors.Is(err, want) {
			t.Errorf("%q: %v; want %v", text, err, want)
		}
	}
	clock.SetTime(time.Unix(1000+59, 0))
	three := s.NewTicket()
	clock.SetTime(time.Unix(1000+60, 0))
	if _, err := s.Open(two); !errors.Is(err, door.ErrTicketExpired) {
		t.Errorf("after a minute: %v; want that it has expired", err)
	}
	if _, err := s.Open(three); err != nil {
		t.Errorf("a ticket of the last second: %v", err)
	}
	for _, text := range []string{"", one, session[:10], session + "x"} {
		if s.Valid(text) {
			t.Errorf("%q is a session", text)
		}
	}
	if len(one) < 40 || one == two || session == one {
		t.Errorf("the tokens are %q, %q, %q; want 256 random bits each", one, two, session)
	}
}

// TestSessionsAreBounded: the oldest session ends when there are too many, and the oldest ticket.
func TestSessionsAreBounded(t *testing.T) {
	s := door.NewSessions(testingclock.NewFakePassiveClock(time.Unix(1000, 0)))
	first, err := s.Open(s.NewTicket())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 16 {
		if !s.Valid(first) {
			t.Fatalf("the first session ended after %d others", i)
		}
		if _, err := s.Open(s.NewTicket()); err != nil {
			t.Fatal(err)
		}
	}
	if s.Valid(first) {
		t.Error("a 17th session is valid")
	}
	old := s.NewTicket()
	for range 64 {
		s.NewTicket()
	}
	if _, err := s.Open(old); !errors.Is(err, door.ErrTicketUnknown) {
		t.Errorf("the 65th ticket from the end: %v", err)
	}
}
