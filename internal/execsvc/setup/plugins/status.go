package plugins

import (
	"cmp"
	"errors"
	"slices"
)

// Status is the state of one registration socket, for operators.
type Status struct {
	// Socket is its path.
	Socket string
	State  State
	// Type, Name, Versions and Endpoint are empty until the plugin is registered.
	Type, Name, Endpoint string
	Versions             []string
	// Error is why a plugin is refused, or wasn't told that it is registered. Empty: it is well.
	Error string
}

// Statuses returns the states of all sockets, by path.
func (m *Manager) Statuses() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Status, 0, len(m.sockets))
	for _, s := range m.sockets {
		status := Status{Socket: s.path, State: s.state, Error: s.err, Type: s.plugin.Type, Name: s.plugin.Name, Versions: s.plugin.Versions}
		if s.instance != nil {
			status.Endpoint = s.plugin.Endpoint.String()
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Socket, b.Socket) })
	return all
}

// note records the result of an attempt, and logs it if it isn't that of the last one.
func (m *Manager) note(s *socket, err error) {
	m.mu.Lock()
	if s.gone {
		m.mu.Unlock()
		return
	}
	registered := s.state == Serving || s.state == StandingBy
	s.err = ""
	if err != nil {
		s.err = cut(err.Error(), maxQuoted)
		if !registered {
			s.state = Refused
		}
	}
	state, text, p := s.state, s.err, s.plugin
	m.mu.Unlock()
	said := string(state) + text
	if said == s.said {
		return
	}
	s.said = said
	log := m.lines.of(s.rel, registered)
	var untold *untoldError
	path := cut(s.path, maxPath)
	switch {
	case errors.As(err, &untold):
		log.Warn("plugin is registered, but can't be told so; it is told again",
			"type", p.Type, "plugin", p.Name, "socket", path, "error", text)
	case err != nil:
		log.Warn("plugin can't be registered; it is tried again", "socket", path, "error", text)
	case state == StandingBy:
		log.Info("plugin stands by: another one serves its name",
			"type", p.Type, "plugin", p.Name, "socket", path, "endpoint", p.Endpoint.String())
	default:
		log.Info("plugin is registered", "type", p.Type, "plugin", p.Name, "versions", p.Versions, "socket", path,
			"endpoint", p.Endpoint.String())
	}
}
