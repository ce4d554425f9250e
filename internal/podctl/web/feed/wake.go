package feed

// wakers are the channels of the readers. Its user guards it.
type wakers map[chan<- struct{}]int

// add registers a channel, which needs a buffer of one.
func (w wakers) add(c chan<- struct{}) { w[c]++ }

// remove undoes one add.
func (w wakers) remove(c chan<- struct{}) {
	if w[c]--; w[c] <= 0 {
		delete(w, c)
	}
}

func (w wakers) wake() {
	for c := range w {
		select {
		case c <- struct{}{}:
		default: // It has a value already.
		}
	}
}
