package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/podstream/podstream/internal/openfile"
)

// State is the state of a registration socket.
type State string

// States of a socket.
const (
	// Waiting: its plugin hasn't answered yet.
	Waiting State = "Waiting"
	// Serving: its plugin serves its name.
	Serving State = "Serving"
	// StandingBy: its plugin serves its name when the current one is gone.
	StandingBy State = "StandingBy"
	// Refused: its plugin failed or was refused. It is tried again.
	Refused State = "Refused"
)

// family is a name of a type: at most one plugin serves it.
type family struct{ kind, name string }

// members are the registered plugins of a family. standby are in the order of their registration.
type members struct {
	current *socket
	standby []*socket
}

// open opens the plugin by its Kind and registers it.
func (m *Manager) open(ctx context.Context, s *socket, file *openfile.Socket, p Plugin) error {
	kind := m.kinds[p.Type]
	if kind == nil {
		return fmt.Errorf("plugins of the type %q aren't supported", p.Type)
	}
	// A refused plugin isn't asked more.
	if err := m.admit(s, p); err != nil && !errors.Is(err, ErrStandBy) {
		return err
	}
	within, cancel := context.WithTimeout(ctx, m.limits.open)
	defer cancel()
	instance, err := kind.Open(within, p)
	if err != nil {
		return err
	}
	if err := m.claim(s, file, p, instance); err != nil {
		instance.Close()
		return err
	}
	return nil
}

// admit returns the verdict of the plugin's Kind beside the current one.
func (m *Manager) admit(s *socket, p Plugin) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.of = family{p.Type, p.Name}
	if f := m.families[s.of]; f != nil {
		return m.kinds[p.Type].Admit(p, f.current.plugin)
	}
	return nil
}

// claim gives the plugin its name, or puts it on standby.
func (m *Manager) claim(s *socket, file *openfile.Socket, p Plugin, instance Instance) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.gone || !file.Same(s.file) {
		return errReplaced
	}
	f, state := m.families[s.of], Serving
	if f == nil {
		f = &members{}
		m.families[s.of] = f
	} else {
		err := m.kinds[p.Type].Admit(p, f.current.plugin)
		switch {
		case errors.Is(err, ErrStandBy):
			state = StandingBy
			f.standby = append(f.standby, s)
		case err != nil:
			return err
		default:
			f.current.state = StandingBy
			f.standby = append(f.standby, f.current)
		}
	}
	s.plugin, s.instance, s.state, s.err = p, instance, state, ""
	if state == Serving {
		f.current = s
		instance.Use()
	}
	return nil
}

// release takes the socket's name from it, and gives it to next, another plugin of that name, if there is one. was is the state in
// which the socket was.
func (m *Manager) release(s *socket) (was State, next *socket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, s.gone = s.state, true
	delete(m.sockets, s.rel)
	f := m.families[s.of]
	if f == nil {
		return was, nil
	}
	f.standby = slices.DeleteFunc(f.standby, func(other *socket) bool { return other == s })
	if f.current != s {
		return was, nil
	}
	if next = m.best(f.standby); next != nil {
		f.standby = slices.DeleteFunc(f.standby, func(other *socket) bool { return other == next })
		f.current, next.state = next, Serving
		next.instance.Use()
		return was, next
	}
	delete(m.families, s.of)
	s.instance.Drop()
	for _, other := range m.sockets {
		if other.of == s.of && other.state == Refused {
			other.wakeUp()
		}
	}
	return was, nil
}

// best returns the plugin on standby that the others wouldn't replace.
func (m *Manager) best(standby []*socket) (best *socket) {
	for _, s := range standby {
		if best == nil || m.kinds[s.plugin.Type].Admit(s.plugin, best.plugin) == nil {
			best = s
		}
	}
	return best
}

// wakeUp ends the socket's pause.
func (s *socket) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// registered reports whether the socket's plugin serves its name or stands by.
func (m *Manager) registered(s *socket) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return s.state == Serving || s.state == StandingBy
}
