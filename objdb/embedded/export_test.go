package embedded

// PauseSending has a member send nothing to the others, as one whose disk hangs.
func (s *Server) PauseSending() { s.etcd.Server.PauseSending() }

// ResumeSending ends that.
func (s *Server) ResumeSending() { s.etcd.Server.ResumeSending() }
