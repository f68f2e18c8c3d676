! Y = A H of a row plan in Fortran, on one MPI rank per part, by way of include/plancc.h.
!
!     plancc compile graph.mtx -p 4 -o plan.h5
!     mpicc -std=c11 -O2 -Iinclude $(pkg-config --cflags hdf5) -c examples/fortran/plancc_c.c
!     mpif90 -O2 examples/fortran/spmm.f90 plancc_c.o -o spmm_f $(pkg-config --libs hdf5) -lm
!     mpirun -n 4 ./spmm_f plan.h5 product.txt
!
! H(c, v) is a function of column and vertex. Rank 0 writes Y, one number per line, vertex by vertex.
! Numbers of rows, columns and vertices in a part count from 0, as in C.
module plancc
  use, intrinsic :: iso_c_binding
  implicit none

  type, bind(C) :: plancc_part
    integer(c_int64_t) :: num_vertices, num_nonzeros_total, num_parts, part, first_row
    integer(c_int64_t) :: num_rows, num_halo, num_nonzeros, num_interior
    type(c_ptr) :: global_id, original_id, row_ptr, column, values
    integer(c_int64_t) :: num_sends
    type(c_ptr) :: send_peer, send_ptr, send_row
    integer(c_int64_t) :: num_recvs
    type(c_ptr) :: recv_peer, recv_ptr
  end type

  interface
    integer(c_int) function plancc_read_part(path, part, found, message, size) bind(C)
      import
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int64_t), value :: part
      type(plancc_part), intent(out) :: found
      character(kind=c_char), intent(out) :: message(*)
      integer(c_size_t), value :: size
    end function

    integer(c_int) function plancc_exchange_f(part, width, own, halo, comm, message, size) bind(C)
      import
      type(plancc_part), intent(in) :: part
      integer(c_int), value :: width, comm
      real(c_double), intent(in) :: own(*)
      real(c_double), intent(inout) :: halo(*)
      character(kind=c_char), intent(out) :: message(*)
      integer(c_size_t), value :: size
    end function

    subroutine plancc_free_part(part) bind(C)
      import
      type(plancc_part), intent(inout) :: part
    end subroutine
  end interface
end module

program spmm
  use mpi
  use plancc
  implicit none
  integer, parameter :: width = 3
  type(plancc_part) :: part
  integer(c_int32_t), pointer :: global_id(:), column(:)
  integer(c_int64_t), pointer :: row_ptr(:)
  real(c_double), pointer :: values(:)
  real(c_double), allocatable :: rows(:, :), out(:, :), mine(:, :), product(:, :)
  character(kind=c_char, len=256) :: message
  character(len=1024) :: path, output
  integer :: rank, ierr, c, unit
  integer(c_int64_t) :: r, e

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call get_command_argument(1, path)
  call get_command_argument(2, output)
  if (plancc_read_part(trim(path)//c_null_char, int(rank, c_int64_t), part, message, &
                       256_c_size_t) /= 0) call fail()
  call c_f_pointer(part%global_id, global_id, [part%num_rows])
  call c_f_pointer(part%row_ptr, row_ptr, [part%num_rows + 1])
  call c_f_pointer(part%column, column, [part%num_nonzeros])
  call c_f_pointer(part%values, values, [part%num_nonzeros])

  ! own rows and received rows in one array, so that local columns number its columns
  allocate (rows(width, part%num_rows + part%num_halo), out(width, part%num_rows))
  do r = 1, part%num_rows
    do c = 1, width
      rows(c, r) = cos(0.37d0*global_id(r) + (c - 1))
    end do
  end do
  if (plancc_exchange_f(part, width, rows, rows(1, part%num_rows + 1), MPI_COMM_WORLD, message, &
                        256_c_size_t) /= 0) call fail()
  out = 0
  do r = 1, part%num_rows
    do e = row_ptr(r) + 1, row_ptr(r + 1)
      out(:, r) = out(:, r) + values(e)*rows(:, column(e) + 1)
    end do
  end do

  allocate (mine(width, part%num_vertices), product(width, part%num_vertices))
  mine = 0
  do r = 1, part%num_rows
    mine(:, global_id(r) + 1) = out(:, r)
  end do
  call MPI_Reduce(mine, product, size(mine), MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) then
    open (newunit=unit, file=trim(output), action='write')
    write (unit, '(es24.16)') product
    close (unit)
    print '(i0, a, i0, a)', part%num_vertices, ' rows on ', part%num_parts, ' ranks'
  end if
  call plancc_free_part(part)
  call MPI_Finalize(ierr)

contains
  subroutine fail()
    integer :: length
    length = index(message, c_null_char) - 1
    print '(a)', message(:length)
    call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
  end subroutine
end program
