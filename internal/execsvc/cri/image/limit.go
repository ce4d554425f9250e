package image

// due reports whether Config.QPS allows a pull to start now, and counts it. If not, startNext is called again when it
// does. Nothing is reserved meanwhile: pulls that are cancelled before they start leave no debt.
func (p *Puller) due() bool {
	if p.limit == nil {
		return true
	}
	if p.limited {
		return false
	}
	now := p.cfg.Clock.Now()
	slot := p.limit.ReserveN(now, 1)
	pause := slot.DelayFrom(now)
	if pause <= 0 {
		return true
	}
	slot.CancelAt(now)
	p.limited = true
	timer := p.cfg.Clock.NewTimer(pause)
	p.running.Go(func() {
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-p.ctx.Done():
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.limited = false
		p.startNext()
	})
	return false
}
