package children

import "github.com/homeostat/homeostat/informer"

// Notes is how many owners s remembers.
func Notes[T informer.Object](s *Set[T]) int { return len(s.notes) }
