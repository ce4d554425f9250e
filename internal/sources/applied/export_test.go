package applied

// FailConfirming has the disk fail to confirm the next changes, which it has taken, with the errors. Nil: it confirms them.
func (s *Source) FailConfirming(confirm func() error) {
	s.disk.Lock()
	defer s.disk.Unlock()
	s.confirm = confirm
}
